package sandbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// Defaults of the settings whose zero value means "the default".
const (
	DefaultWindow     = 5 * time.Minute
	DefaultSlowDelay  = 2 * time.Second
	DefaultRetryAfter = time.Second
	DefaultMaxBody    = 2 << 20
)

// MaxKeys is how many key pairs an account may hold, by the contract.
const MaxKeys = 10

// Config is what a server is made with. The embedded Settings can be changed
// later, the rest cannot.
type Config struct {
	Settings

	// Keys are the key pairs at the start: API key to API secret.
	Keys map[string]string
	// Account is the name that GET /v1/account answers with.
	Account string
	// AdminAddr, where set, serves the /_sandbox/ endpoints on an address of
	// their own too, which a Down server still answers.
	AdminAddr string
	// TLS serves the API over TLS, with a certificate of its own: see Server.CA.
	TLS bool
	// Hosts are names and addresses that the certificate is for beside loopback.
	Hosts []string
	// MaxBody is the largest request body, in bytes.
	MaxBody int64
	// Trail is how many of the last requests are kept in full; 0 keeps none.
	Trail int
	// Logger gets one debug line per request and an info line per change of
	// settings or keys. It never sees a secret.
	Logger zerolog.Logger
	// Now is the clock; time.Now where nil.
	Now func() time.Time
}

// withDefaults fills in what was left at zero.
func (c Config) withDefaults() Config {
	c.Settings = c.Settings.withDefaults()
	if c.Account == "" {
		c.Account = "sandbox"
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate names everything that is wrong with the configuration, at once.
func (c Config) Validate() error {
	errs := []error{c.Settings.withDefaults().Validate()}
	if len(c.Keys) == 0 {
		errs = append(errs, errors.New("keys: at least one key pair is needed"))
	}
	if len(c.Keys) > MaxKeys {
		errs = append(errs, fmt.Errorf("keys: %d key pairs, an account holds at most %d", len(c.Keys), MaxKeys))
	}
	for key, secret := range c.Keys {
		errs = append(errs, validatePair(key, secret))
	}
	if c.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("max-body: %d is negative", c.MaxBody))
	}
	if c.Trail < 0 || c.Trail > maxTrail {
		errs = append(errs, fmt.Errorf("trail: %d is not between 0 and %d", c.Trail, maxTrail))
	}
	return errors.Join(errs...)
}
