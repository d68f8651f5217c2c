package notify

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"orderpost/internal/platform/textfile"
)

const (
	secretPrefix = "whsec_"
	// The sizes of a secret that Standard Webhooks allows, in bytes, and that of NewSecret.
	leastSecret, mostSecret, newSecret = 24, 64, 32
	// mostSecrets is how many secrets sign at once.
	mostSecrets = 2
	// secretEvery is how often the file is read again.
	secretEvery = 5 * time.Second
)

// NewSecret returns a new random secret.
func NewSecret() string {
	key := make([]byte, newSecret)
	_, _ = rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// readSecrets reads one or two secrets, one a line. Its errors show no secret.
func readSecrets(text string) (keys [][]byte, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		coded, ok := strings.CutPrefix(line, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(coded)
		switch {
		case !ok:
			return nil, fmt.Errorf("secret %d does not begin with %s", len(keys)+1, secretPrefix)
		case err != nil:
			return nil, fmt.Errorf("secret %d is not base64 after %s", len(keys)+1, secretPrefix)
		case len(key) < leastSecret || len(key) > mostSecret:
			return nil, fmt.Errorf("secret %d has %d bytes: give %d to %d", len(keys)+1, len(key), leastSecret, mostSecret)
		}
		keys = append(keys, key)
	}
	switch {
	case len(keys) == 0:
		return nil, errors.New("holds no secret")
	case len(keys) > mostSecrets:
		return nil, fmt.Errorf("holds %d secrets: at most %d sign at once", len(keys), mostSecrets)
	}
	return keys, nil
}

// readFile reads the secrets in a file. Its errors name the setting and the file.
func readFile(file string) (keys [][]byte, err error) {
	text, err := textfile.Read(file)
	if err != nil {
		return nil, fmt.Errorf("ORDERPOST_NOTIFY_SECRET_FILE: %w", err) // it names the file
	}
	if keys, err = readSecrets(string(text)); err != nil {
		return nil, fmt.Errorf("ORDERPOST_NOTIFY_SECRET_FILE: %s: %w", file, err)
	}
	return keys, nil
}

// secrets are the keys that sign. A file is read again when it changes. A file that
// cannot be read any more changes nothing.
type secrets struct {
	file string

	mu     sync.Mutex
	keys   [][]byte
	looked time.Time
	told   string
}

// CheckFiles returns what is wrong with the secret that a valid configuration names.
func (c Config) CheckFiles() error {
	if !c.On() || c.Validate() != nil {
		return nil
	}
	_, err := newSecrets(c)
	return err
}

func newSecrets(c Config) (s *secrets, err error) {
	s = &secrets{file: c.SecretFile, looked: time.Now()}
	if s.file != "" {
		s.keys, err = readFile(s.file)
	} else {
		s.keys, err = readSecrets(string(c.Secret)) // Config.Validate names the setting
	}
	return s, err
}

// current returns the keys, and an error once for each problem with the file.
func (s *secrets) current() (keys [][]byte, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" || time.Since(s.looked) < secretEvery {
		return s.keys, nil
	}
	s.looked = time.Now()
	text := ""
	keys, err := readFile(s.file)
	if err == nil {
		s.keys = keys
	} else {
		text = err.Error()
	}
	if text == s.told {
		err = nil
	}
	s.told = text
	return s.keys, err
}

// signature returns the header webhook-signature of one attempt: a signature by each key,
// divided by spaces.
func signature(keys [][]byte, id, timestamp string, body []byte) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " ")
}
