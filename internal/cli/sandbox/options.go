package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"orderpost/internal/cli"
	"orderpost/internal/platform/endpoint"
	"orderpost/internal/platform/textfile"
	"orderpost/internal/sandbox"
)

const (
	envPrefix   = cli.SandboxPrefix
	defaultAddr = "127.0.0.1:8089"

	// The default key pair. It is public, because the sandbox creates nothing of
	// value.
	defaultKey    = "sandbox-key"
	defaultSecret = "sandbox-secret"
)

// options holds the program's settings, from flags and environment.
type options struct {
	config    sandbox.Config
	addr      string
	logLevel  zerolog.Level
	logFormat string
	json      bool
	caFile    string

	pairs    []string // key:secret
	keysFile string
	ownKeys  bool // key pairs were given

	errs  []error       // bad values, which are reported together
	meant []cli.Unknown // variables that were probably meant for the sandbox
}

func newOptions() *options {
	return &options{
		addr:      defaultAddr,
		logLevel:  zerolog.InfoLevel,
		logFormat: "console",
		caFile:    "sandbox-ca.pem",
		config: sandbox.Config{
			Account: "sandbox",
			MaxBody: sandbox.DefaultMaxBody,
			Settings: sandbox.Settings{
				Window: sandbox.DefaultWindow,
				Faults: sandbox.Faults{SlowDelay: sandbox.DefaultSlowDelay, RetryAfter: sandbox.DefaultRetryAfter},
			},
		},
	}
}

// register defines the flags. They collect bad values in errs, because pflag would stop
// at the first one.
func (o *options) register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	o.registerPlaces(flags)
	for s := range o.config.Settings.Each {
		o.add(flags, s.Name, s.Type(), s.String(), s.Help, s.Set)
	}
	o.registerOutput(flags)
}

// registerPlaces defines the flags for addresses and key pairs.
func (o *options) registerPlaces(flags *pflag.FlagSet) {
	text := func(name, kind string, at *string, help string) {
		o.add(flags, name, kind, *at, help, func(s string) error { *at = s; return nil })
	}
	address := func(name string, at *string, help string) {
		o.add(flags, name, "host:port", *at, help, func(s string) error {
			*at = s
			return endpoint.Listen(s)
		})
	}
	address("addr", &o.addr, "where the API listens")
	flags.BoolVar(&o.config.TLS, "tls", false, "serve the API over TLS, with a certificate of its own (--admin-addr stays in clear)")
	text("tls-ca-file", "file", &o.caFile, "where its authority is written, for ORDERPOST_API_CA_FILE; removed at the end")
	address("admin-addr", &o.config.AdminAddr, "where /_sandbox/ listens too, and answers while the API is down")
	o.add(flags, "key", "key:secret", "", "a key pair, up to ten times (in view of other users of this machine; see --keys-file)", func(s string) error {
		o.pairs = append(o.pairs, s)
		return nil
	})
	text("keys-file", "file", &o.keysFile, "a file of key pairs, key:secret, one a line")
	text("account", "name", &o.config.Account, "the account that GET /v1/account names")
}

// registerOutput defines the flags for limits and for what is printed.
func (o *options) registerOutput(flags *pflag.FlagSet) {
	o.add(flags, "max-body", "bytes", strconv.FormatInt(o.config.MaxBody, 10), "the largest request body", func(s string) (err error) {
		o.config.MaxBody, err = strconv.ParseInt(s, 10, 64)
		return readable(err, s, "a whole number")
	})
	o.add(flags, "trail", "count", "0", "how many of the last requests GET /_sandbox/requests shows in full", func(s string) (err error) {
		o.config.Trail, err = strconv.Atoi(s)
		return readable(err, s, "a whole number")
	})
	o.add(flags, "log-level", "level", o.logLevel.String(), "debug logs every request", func(s string) (err error) {
		o.logLevel, err = cli.ParseLevel(s)
		return err
	})
	o.add(flags, "log-format", "console|json", o.logFormat, "how log lines look", func(s string) error {
		o.logFormat = s
		if s != "console" && s != "json" {
			return fmt.Errorf("%q is neither console nor json", s)
		}
		return nil
	})
	flags.BoolVar(&o.json, "json", false, "print the ledger's summary at the end as JSON")
}

// add defines a flag.
func (o *options) add(flags *pflag.FlagSet, name, kind, initial, help string, set func(string) error) {
	flags.Var(&flagValue{o: o, name: name, kind: kind, text: initial, set: set}, name, help)
}

func readable(err error, text, wanted string) error {
	if err != nil {
		return fmt.Errorf("%q is not %s", text, wanted)
	}
	return nil
}

// resolve reads the environment for flags that are not given, and checks everything.
func (o *options) resolve(flags *pflag.FlagSet, environ map[string]string) error {
	known := map[string]bool{envPrefix + "KEYS": true, envPrefix + "KEYS_FILE": true}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "key" {
			return
		}
		name := envName(f.Name)
		known[name] = true
		value, set := environ[name]
		if !set || value == "" || f.Changed {
			return
		}
		if err := f.Value.Set(value); err != nil {
			o.errs = append(o.errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			o.errs = append(o.errs, fmt.Errorf("%s: there is no such setting", name))
		}
	}
	o.meant = nearMisses(environ, known)
	o.readKeys(flags, environ)
	if o.config.Down == sandbox.RefuseAll && o.config.AdminAddr == "" {
		o.errs = append(o.errs, errors.New("down: refuse needs --admin-addr, or nobody could end it"))
	}
	o.errs = append(o.errs, o.config.Validate())
	return errors.Join(o.errs...)
}

// nearMisses returns variables without the sandbox's prefix that resemble one of its
// settings. Others may belong to another program.
func nearMisses(environ map[string]string, known map[string]bool) []cli.Unknown {
	var settings []cli.Setting
	for name := range known {
		settings = append(settings, cli.Setting{Name: name})
	}
	return slices.DeleteFunc(cli.UnknownSettings(environ, settings), func(u cli.Unknown) bool { return u.Nearest == "" })
}

// envName returns the variable of a flag. The settings of the log are the same for all
// programs.
func envName(flag string) string {
	name := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if strings.HasPrefix(name, "LOG_") {
		return "ORDERPOST_" + name
	}
	return envPrefix + name
}

// readKeys reads the key pairs from the flags, the file or the environment: the first
// of these that is given counts.
func (o *options) readKeys(flags *pflag.FlagSet, environ map[string]string) {
	lines := o.pairs
	switch {
	case flags.Changed("key"):
	case o.keysFile != "":
		content, err := textfile.Read(o.keysFile)
		if err != nil {
			o.errs = append(o.errs, fmt.Errorf("keys-file: %w", err))
		}
		lines = strings.Split(string(content), "\n")
	default:
		lines = strings.Split(environ[envPrefix+"KEYS"], "\n")
	}
	o.config.Keys = make(map[string]string)
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if line == "" {
			continue
		}
		o.ownKeys = true
		key, secret, found := strings.Cut(line, ":")
		if _, twice := o.config.Keys[key]; !found || twice {
			// The line holds a secret, so the error shows only its number.
			o.errs = append(o.errs, fmt.Errorf("keys: pair %d is not key:secret with a key of its own", i+1))
			continue
		}
		o.config.Keys[key] = secret
	}
	if !o.ownKeys && o.keysFile == "" {
		o.config.Keys[defaultKey] = defaultSecret
	}
}

// flagValue is a pflag.Value that collects its error instead of returning it.
type flagValue struct {
	o    *options
	name string
	kind string
	text string
	set  func(string) error
}

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return v.kind }
func (v *flagValue) Set(text string) error {
	v.text = text
	if err := v.set(text); err != nil {
		v.o.errs = append(v.o.errs, fmt.Errorf("%s: %w", v.name, err))
	}
	return nil
}
