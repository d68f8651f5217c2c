package notify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/platform/endpoint"
	"orderpost/internal/platform/secret"
)

// Config holds the settings of the sender.
type Config struct {
	URL        string      `env:"NOTIFY_URL" desc:"address to which outcomes are posted as webhooks; empty = none are"`
	Secret     secret.Text `env:"NOTIFY_SECRET" desc:"secret (whsec_…) that signs webhooks; two, one a line, while the receiver changes to the new one"`
	SecretFile string      `env:"NOTIFY_SECRET_FILE" desc:"file with the secret(s), read again when it changes"`
	TLSCert    string      `env:"NOTIFY_TLS_CERT_FILE" desc:"PEM file of the certificate that the receiver is shown (mutual TLS), read again with its key when it changes"`
	TLSKey     string      `env:"NOTIFY_TLS_KEY_FILE" desc:"PEM file of the certificate's key"`
	Outcomes   []string    `env:"NOTIFY_OUTCOMES" desc:"only webhooks about these outcomes, comma-separated; empty = all"`
	Sources    []string    `env:"NOTIFY_SOURCES" desc:"only webhooks about orders of these sources, comma-separated; * stands for any text; empty = all"`
	Imports    []string    `env:"NOTIFY_IMPORTS" desc:"only webhooks about orders of these imports (Order-Batch), likewise"`
	Types      []string    `env:"NOTIFY_TYPES" desc:"only webhooks of these types, comma-separated; * stands for any text; empty = order.*, fleet.held and fleet.resumed"`
	Begin      string      `env:"NOTIFY_BEGIN" envDefault:"now" desc:"where the first sender of a fleet begins: now, or oldest (every outcome that is kept)"`

	// PlainHTTPHosts are the hosts beyond loopback to which plain http is allowed.
	PlainHTTPHosts []string `env:"-"`
}

// On reports whether webhooks are sent at all.
func (c Config) On() bool { return c.URL != "" }

// Where a first sender begins.
const (
	beginNow    = "now"
	beginOldest = "oldest"
)

// Validate reports every bad setting at once, by the name of its variable. Without
// NOTIFY_URL the other settings have no effect, and Validate says nothing about them.
func (c Config) Validate() error {
	if !c.On() {
		return nil
	}
	errs := []error{c.checkSecret()}
	if _, err := endpoint.HTTP(c.URL, "outcomes", c.PlainHTTPHosts); err != nil {
		errs = append(errs, fmt.Errorf("ORDERPOST_NOTIFY_URL: %w", err))
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("ORDERPOST_NOTIFY_TLS_CERT_FILE: a certificate needs its key (ORDERPOST_NOTIFY_TLS_KEY_FILE), and a key its certificate"))
	}
	if c.Begin != beginNow && c.Begin != beginOldest {
		errs = append(errs, fmt.Errorf("ORDERPOST_NOTIFY_BEGIN: %q: give %s or %s", c.Begin, beginNow, beginOldest))
	}
	for _, kind := range c.Types {
		if !slices.ContainsFunc(types, deadletter.Pattern(strings.TrimSpace(kind))) {
			errs = append(errs, fmt.Errorf("ORDERPOST_NOTIFY_TYPES: %q is no type of event; the types are %s", kind, strings.Join(types, ", ")))
		}
	}
	for _, word := range c.Outcomes {
		var o order.Outcome
		if err := o.UnmarshalText([]byte(strings.TrimSpace(word))); err != nil || o == order.OutcomeNone {
			errs = append(errs, fmt.Errorf("ORDERPOST_NOTIFY_OUTCOMES: %q is no outcome; the outcomes are %v", word, order.Outcomes()))
		}
	}
	return errors.Join(errs...)
}

func (c Config) checkSecret() error {
	switch {
	case c.Secret == "" && c.SecretFile == "":
		return errors.New("ORDERPOST_NOTIFY_SECRET_FILE (or ORDERPOST_NOTIFY_SECRET): is required; orderpost notify secret prints a new secret")
	case c.Secret != "" && c.SecretFile != "":
		return errors.New("ORDERPOST_NOTIFY_SECRET and ORDERPOST_NOTIFY_SECRET_FILE: give one of them")
	case c.Secret == "":
		return nil // the file is read by NewSender
	}
	if _, err := readSecrets(string(c.Secret)); err != nil {
		return fmt.Errorf("ORDERPOST_NOTIFY_SECRET: %w", err)
	}
	return nil
}
