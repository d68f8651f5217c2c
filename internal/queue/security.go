package queue

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go"
)

// security returns the connection's options for credentials and TLS. It reads
// the files here, so that an error about a missing or broken file names its
// variable before the broker is dialled. The client reads them again at every
// connect and picks up renewed ones.
func (c Config) security() ([]nats.Option, error) {
	var opts []nats.Option
	var errs []error
	bad := func(name string, err error) { errs = append(errs, fmt.Errorf("ORDERPOST_%s: %w", name, err)) }
	// take adds an option if applying it gives no error.
	take := func(name string, opt nats.Option) {
		if err := opt(&nats.Options{}); err != nil {
			bad(name, err)
			return
		}
		opts = append(opts, opt)
	}
	if c.Creds != "" && c.NKeyFile != "" {
		bad("NATS_NKEY_FILE", errors.New("give either it or ORDERPOST_NATS_CREDS"))
	}
	if c.Creds != "" {
		take("NATS_CREDS", func(o *nats.Options) error {
			err := nats.UserCredentials(c.Creds)(o)
			if err == nil {
				_, err = o.SignatureCB(nil) // without a seed, each connect would fail, as if the broker were out of reach
			}
			return err
		})
	}
	if c.NKeyFile != "" {
		opt, err := nats.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			bad("NATS_NKEY_FILE", err)
		} else {
			opts = append(opts, opt)
		}
	}
	if c.CAFile != "" {
		take("NATS_CA_FILE", nats.RootCAs(c.CAFile))
	}
	switch {
	case c.CertFile != "" && c.KeyFile != "":
		take("NATS_CERT_FILE", nats.ClientCert(c.CertFile, c.KeyFile))
	case c.CertFile != "":
		bad("NATS_KEY_FILE", errors.New("is required beside ORDERPOST_NATS_CERT_FILE"))
	case c.KeyFile != "":
		bad("NATS_CERT_FILE", errors.New("is required beside ORDERPOST_NATS_KEY_FILE"))
	}
	switch {
	case c.InboxPrefix == "":
	case !inboxPrefix.MatchString(c.InboxPrefix):
		bad("NATS_INBOX_PREFIX", fmt.Errorf("%q is not a subject of one to four tokens (letters, digits, _ and -, joined by dots)", c.InboxPrefix))
	default:
		opts = append(opts, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	return opts, errors.Join(errs...)
}

// inboxPrefix matches a valid subject prefix for the broker's answers.
var inboxPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$`)
