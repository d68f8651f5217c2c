package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// pair is a key pair with counters of its use.
type pair struct {
	key      string
	macs     sync.Pool // of hash.Hash: HMAC-SHA256 keyed with the secret
	requests atomic.Int64
	badSigns atomic.Int64
}

func newPair(key, secret string) *pair {
	p := &pair{key: key}
	p.macs.New = func() any { return hmac.New(sha256.New, []byte(secret)) }
	return p
}

// sign appends the HMAC-SHA256 of text to sum.
func (p *pair) sign(sum, text []byte) []byte {
	mac := p.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write(text)
	sum = mac.Sum(sum)
	p.macs.Put(mac)
	return sum
}

func validatePair(key, secret string) error {
	switch {
	case key == "":
		return errors.New("keys: an API key is empty")
	case secret == "":
		return fmt.Errorf("keys: the secret of %s is empty", maskKey(key))
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("keys: %s does not fit a header", maskKey(key))
		}
	}
	return nil
}

// maskKey returns the part of a key that identifies it in logs.
func maskKey(key string) string {
	const shown = 4
	if len(key) <= 2*shown {
		return "****"
	}
	return key[:shown] + "****"
}

// keyring holds the account's key pairs. It is optimised for reads.
type keyring struct {
	changing sync.Mutex
	pairs    atomic.Pointer[map[string]*pair]
}

func newKeyring(keys map[string]string) *keyring {
	pairs := make(map[string]*pair, len(keys))
	for key, secret := range keys {
		pairs[key] = newPair(key, secret)
	}
	k := &keyring{}
	k.pairs.Store(&pairs)
	return k
}

func (k *keyring) find(key string) *pair { return (*k.pairs.Load())[key] }

func (k *keyring) all() []*pair {
	pairs := *k.pairs.Load()
	all := make([]*pair, 0, len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		all = append(all, pairs[key])
	}
	return all
}

// errTooManyKeys says that the account is full.
var errTooManyKeys = fmt.Errorf("keys: an account holds at most %d key pairs", MaxKeys)

func (k *keyring) add(key, secret string) error {
	if err := validatePair(key, secret); err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	pairs := maps.Clone(*k.pairs.Load())
	if _, there := pairs[key]; !there && len(pairs) >= MaxKeys {
		return errTooManyKeys
	}
	pairs[key] = newPair(key, secret)
	k.pairs.Store(&pairs)
	return nil
}

func (k *keyring) revoke(key string) bool {
	k.changing.Lock()
	defer k.changing.Unlock()
	pairs := maps.Clone(*k.pairs.Load())
	if _, there := pairs[key]; !there {
		return false
	}
	delete(pairs, key)
	k.pairs.Store(&pairs)
	return true
}

// header returns the value of a header. The name must be in canonical form. A repeated
// header counts as absent, because servers disagree about which value counts.
func header(h http.Header, name string) string {
	if v := h[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
