package submit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"orderpost/internal/order"
	"orderpost/internal/platform/secret"
	"orderpost/internal/platform/textfile"
)

// MaxPairs is the largest number of key pairs that an account has.
const MaxPairs = 10

// Signer stamps and signs one attempt. Sign appends to dst the body, which holds the
// timestamp timestampMS in milliseconds since 1970, and signs exactly these bytes.
type Signer interface {
	Sign(dst []byte, o *order.Order, timestampMS int64) (body []byte, signature string, err error)
}

// KeyPair is an API key and the signer that holds its secret. However it is printed,
// it shows only the masked key.
type KeyPair struct {
	Key    string
	Signer Signer
}

// mask shortens a key to what a person needs to tell keys apart: the first two and
// the last two characters. It hides a short key completely.
func mask(key string) string {
	if len(key) < 12 {
		return "****"
	}
	return key[:2] + "…" + key[len(key)-2:]
}

// String masks the key.
func (p KeyPair) String() string { return mask(p.Key) }

// Format masks the key whatever the verb.
func (p KeyPair) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(mask(p.Key))) }

// MarshalText masks the key.
func (p KeyPair) MarshalText() ([]byte, error) { return []byte(mask(p.Key)), nil }

// KeySource returns the account's key pairs in order of preference. The submitter
// calls it at the start, at every denial and every Config.KeyReload. A pair is the
// same as before if its Key and its Signer are equal (==), which must be comparable.
type KeySource interface {
	Pairs() ([]KeyPair, error)
}

func checkPairs(pairs []KeyPair) error {
	if len(pairs) == 0 {
		return errors.New("no API key pair")
	}
	if len(pairs) > MaxPairs {
		return fmt.Errorf("%d API key pairs: an account has at most %d", len(pairs), MaxPairs)
	}
	for i, p := range pairs {
		if p.Key == "" || p.Signer == nil {
			return fmt.Errorf("API key pair %d has no key or no secret", i+1)
		}
		if strings.ContainsFunc(p.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("API key %d cannot be sent in a header: it holds a space, a control character or a non-ASCII character", i+1)
		}
		if slices.ContainsFunc(pairs[:i], func(q KeyPair) bool { return q.Key == p.Key }) {
			return fmt.Errorf("API key %d occurs twice", i+1)
		}
	}
	return nil
}

// KeyConfig says where the key pairs come from. A value holds one key or secret per
// line. The first key belongs to the first secret, and so on. The program reads the
// files again while it runs.
type KeyConfig struct {
	Key        secret.Text `env:"API_KEY" desc:"API key; several, one a line, are used in order"`
	KeyFile    string      `env:"API_KEY_FILE" desc:"file with the API key(s), read again when it changes"`
	Secret     secret.Text `env:"API_SECRET" desc:"API secret; several, one a line, in the order of the keys"`
	SecretFile string      `env:"API_SECRET_FILE" desc:"file with the API secret(s), read again when it changes"`
}

// Validate reports every bad setting at once, by the name of its variable.
func (c KeyConfig) Validate() error {
	var errs []error
	one := func(name string, value secret.Text, file string) {
		switch {
		case value == "" && file == "":
			errs = append(errs, fmt.Errorf("ORDERPOST_%s (or ORDERPOST_%s_FILE): is required", name, name))
		case value != "" && file != "":
			errs = append(errs, fmt.Errorf("ORDERPOST_%s and ORDERPOST_%s_FILE: give one of them", name, name))
		}
	}
	one("API_KEY", c.Key, c.KeyFile)
	one("API_SECRET", c.Secret, c.SecretFile)
	return errors.Join(errs...)
}

// keyName and secretName return the variables in use, for messages.
func (c KeyConfig) keyName() string { return settingName("API_KEY", c.KeyFile) }

func (c KeyConfig) secretName() string { return settingName("API_SECRET", c.SecretFile) }

func settingName(name, file string) string {
	if file == "" {
		return "ORDERPOST_" + name
	}
	return fmt.Sprintf("ORDERPOST_%s_FILE (%s)", name, file)
}

// FileKeys is the KeySource of a KeyConfig. It creates one signer per pair, so
// unchanged settings return equal pairs.
type FileKeys struct {
	cfg       KeyConfig
	newSigner func(secret string) (Signer, error)

	mu      sync.Mutex
	signers map[[2]string]Signer // of the pairs that were read last
}

// NewFileKeys returns a FileKeys. It reads the pairs once to find mistakes.
func NewFileKeys(cfg KeyConfig, newSigner func(secret string) (Signer, error)) (*FileKeys, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &FileKeys{cfg: cfg, newSigner: newSigner}
	_, err := f.Pairs()
	return f, err
}

// Pairs implements [KeySource]. Its errors show no content of the files.
func (f *FileKeys) Pairs() ([]KeyPair, error) {
	key, err := readSetting("API_KEY", f.cfg.Key, f.cfg.KeyFile)
	if err != nil {
		return nil, err
	}
	secret, err := readSetting("API_SECRET", f.cfg.Secret, f.cfg.SecretFile)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	keys, secrets := lines(key), lines(secret)
	if len(keys) != len(secrets) {
		return nil, fmt.Errorf("%s holds %d key(s), %s %d secret(s): give one secret for each key, in the same order", f.cfg.keyName(), len(keys), f.cfg.secretName(), len(secrets))
	}
	if len(keys) > MaxPairs {
		return nil, fmt.Errorf("%s: %d keys: an account has at most %d", f.cfg.keyName(), len(keys), MaxPairs)
	}
	pairs := make([]KeyPair, len(keys))
	signers := make(map[[2]string]Signer, len(keys))
	for i, key := range keys {
		id := [2]string{key, secrets[i]}
		s, known := f.signers[id]
		if !known {
			var err error
			if s, err = f.newSigner(secrets[i]); err != nil {
				return nil, fmt.Errorf("%s: secret %d: %w", f.cfg.secretName(), i+1, err)
			}
		}
		signers[id] = s
		pairs[i] = KeyPair{Key: key, Signer: s}
	}
	if err := checkPairs(pairs); err != nil {
		return nil, fmt.Errorf("%s: %w", f.cfg.keyName(), err)
	}
	f.signers = signers
	return pairs, nil
}

// Where names the variables that hold the pairs, for messages.
func (f *FileKeys) Where() string { return f.cfg.keyName() + " and " + f.cfg.secretName() }

func readSetting(name string, value secret.Text, file string) (string, error) {
	if file == "" {
		return string(value), nil
	}
	data, err := textfile.Read(file)
	if err != nil {
		return "", fmt.Errorf("ORDERPOST_%s_FILE: %w", name, err)
	}
	return string(data), nil
}

// lines splits text at line ends and drops empty lines. Spaces belong to a secret.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// pairState is a pair, and what the answers showed about it. Neither is replaced.
type pairState struct {
	KeyPair
	shared *shared
}
