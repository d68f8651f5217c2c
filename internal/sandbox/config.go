package sandbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// The defaults of settings whose zero value means the default.
const (
	DefaultWindow     = 5 * time.Minute
	DefaultLateDelay  = 10 * time.Second
	DefaultSlowDelay  = 2 * time.Second
	DefaultRetryAfter = time.Second
	DefaultMaxBody    = 2 << 20
)

// MaxKeys is the most key pairs of an account (by the contract).
const MaxKeys = 10

// Config configures a server. Only the embedded Settings can be changed later.
type Config struct {
	Settings

	// Keys maps the initial API keys to their secrets.
	Keys map[string]string
	// Account is the name in the answer to GET /v1/account.
	Account string
	// AdminAddr, if not empty, is an additional address for the /_sandbox/
	// endpoints. They answer there even while the API is down.
	AdminAddr string
	// TLS serves the API over TLS, with a certificate of its own: see Server.CA.
	TLS bool
	// Hosts are names and addresses that the certificate is for beside loopback.
	Hosts []string
	// MaxBody is the largest request body, in bytes.
	MaxBody int64
	// Trail is how many of the last requests the server keeps in full.
	Trail int
	// Witness is told of each properly signed request to create an order, once the
	// server has decided about it and before it answers. nil means nobody.
	Witness func(Witnessed)
	// Logger gets a debug line for each request and an info line for each change of
	// settings or keys. No line contains a secret.
	Logger zerolog.Logger
	// Now is the clock. nil means time.Now.
	Now func() time.Time
}

// withDefaults replaces zero values by defaults.
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

// Validate returns all mistakes in the configuration, joined.
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
