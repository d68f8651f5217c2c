package queue

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go"
)

// inboxPrefix: where the broker sends the answers to a program's requests.
var inboxPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$`)

// security are the connection's options that say who we are and whom we trust.
// The files are read here, so that one that is missing or broken is told by
// the name of its variable before the broker is asked, and again at every
// connect, so that renewed ones are taken up.
func (c Config) security() ([]nats.Option, error) {
	var opts []nats.Option
	var errs []error
	bad := func(name string, err error) { errs = append(errs, fmt.Errorf("ORDERPOST_%s: %w", name, err)) }
	// take applies an option to nothing, for the sake of its error.
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
		take("NATS_CREDS", nats.UserCredentials(c.Creds))
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
