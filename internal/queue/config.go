package queue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"orderpost/internal/platform/duration"
	"orderpost/internal/platform/endpoint"
)

// Config says where the broker is and how the streams are laid out. Programs
// that share a broker must agree on Prefix.
type Config struct {
	URL   string `env:"NATS_URL" desc:"NATS servers, comma-separated; empty runs (or joins) the embedded one of the data folder"`
	Creds string `env:"NATS_CREDS" desc:"NATS credentials file (.creds)"`

	NKeyFile    string `env:"NATS_NKEY_FILE" desc:"file with the seed of a NATS user nkey, instead of credentials"`
	CAFile      string `env:"NATS_CA_FILE" desc:"PEM file of the authorities to trust for the broker, instead of the system's"`
	CertFile    string `env:"NATS_CERT_FILE" desc:"PEM file of the client certificate for the broker"`
	KeyFile     string `env:"NATS_KEY_FILE" desc:"PEM file of the client certificate's key"`
	InboxPrefix string `env:"NATS_INBOX_PREFIX" desc:"first token(s) of the subjects of the broker's answers, where the NATS user may subscribe to no others; empty = _INBOX"`
	// Token is the embedded broker's token from the data folder.
	Token string `env:"-"`
	// Locate returns the broker's current address and token. It replaces URL
	// and Token. Each connect calls it, because an embedded broker that was
	// restarted may have another address.
	Locate func() (url, token string, err error) `env:"-"`

	ConnectTimeout time.Duration `env:"NATS_CONNECT_TIMEOUT" envDefault:"10s" desc:"how long a program waits for the broker at its start"`
	// BrokerWait is for commands. 0: requests fail at once. A worker repeats
	// its own requests.
	BrokerWait time.Duration `env:"BROKER_WAIT" envDefault:"2m" desc:"how long a command waits for a broker that went away; a worker waits for ever"`
	// Tell receives a line for the user when a command begins to wait for the
	// broker, and one when it goes on.
	Tell func(line string) `env:"-"`

	Prefix   string `env:"PREFIX" desc:"where installations share a broker: X makes X_ORDERS, X.orders and X_ORDERPOST"`
	Replicas int    `env:"REPLICAS" envDefault:"1" desc:"replicas of streams, consumer and bucket (1, 3 or 5); a worker raises those that exist"`

	AckWait         time.Duration `env:"ACK_WAIT" envDefault:"30s" desc:"how long a silent worker keeps its claim on an order; all workers need the same, and one that lowers it waits for the former one at its start"`
	ResultRetention time.Duration `env:"RESULT_RETENTION" envDefault:"720h" desc:"how long settled results are kept, in time that the fleet runs; unknown ones and what has a dead letter stay"`
	MaxIntents      int64         `env:"MAX_INTENTS" envDefault:"-1" desc:"pending intents at which producers are refused; -1 = as many as fit"`
	MaxBytes        int64         `env:"MAX_BYTES" envDefault:"-1" desc:"bytes of pending intents at which producers are refused; -1 = as many as fit"`

	// AttemptTimeout bounds one attempt. Only after it may a worker decide
	// about another worker's open attempt note (R2). Redelivered orders wait at
	// least that long after a reconnect (R7).
	AttemptTimeout time.Duration `env:"-"`
	// LongestDelay bounds the delay of an order before its next submission (R9).
	LongestDelay time.Duration `env:"-"`
	// Worker says that this program handles the queue. Streams and consumer are
	// then updated to its settings.
	Worker bool `env:"-"`
	// Living names a worker other than self that gives a sign of life in the bucket while it
	// looks, which may take seconds; "" = there is none. The queue calls it before it changes the
	// consumer, on which running workers rely. A worker must set it. nil means that no other
	// workers exist, as on a broker of the program's own.
	Living func(ctx context.Context, b *Bucket, self string) (other string, err error) `env:"-"`
	// Missing says what Open does about streams that the broker does not have.
	Missing Missing `env:"-"`
	// Name identifies the connection in the broker's monitoring.
	Name string `env:"-"`
}

// DefaultConfig returns the settings of an empty environment.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout: 10 * time.Second,
		Replicas:       1,
		AckWait:        30 * time.Second, ResultRetention: 720 * time.Hour,
		MaxIntents: -1, MaxBytes: -1, AttemptTimeout: 30 * time.Second, LongestDelay: 5 * time.Minute,
	}
}

// MaxAckPending is the number of orders that may be in flight or delayed, over the whole
// fleet.
const MaxAckPending = 200_000

var namePrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}$`)

// Validate returns every invalid setting at once, by the name of its variable.
func (c Config) Validate() error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("ORDERPOST_%s: "+format, append([]any{name}, args...)...))
	}
	if !namePrefix.MatchString(c.Prefix) {
		bad("PREFIX", "%q is not a name of at most 64 letters, digits, _ and -", c.Prefix)
	}
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		bad("REPLICAS", "%d: give 1, 3 or 5", c.Replicas)
	}
	for name, d := range map[string]time.Duration{"ACK_WAIT": c.AckWait, "RESULT_RETENTION": c.ResultRetention,
		"NATS_CONNECT_TIMEOUT": c.ConnectTimeout, "BROKER_WAIT": c.BrokerWait} {
		if err := duration.Check(d); err != nil {
			bad(name, "%w", err)
		}
	}
	if c.AckWait >= 0 && c.AckWait < time.Second {
		bad("ACK_WAIT", "%s is below 1s", c.AckWait)
	}
	if c.ResultRetention >= 0 && c.ResultRetention < time.Minute {
		bad("RESULT_RETENTION", "%s is below 1m", c.ResultRetention)
	}
	if c.ConnectTimeout == 0 {
		bad("NATS_CONNECT_TIMEOUT", "%s is not positive", c.ConnectTimeout)
	}
	atMost := func(name string, n int64) {
		if n == 0 || n < -1 {
			bad(name, "%d: give a number above 0, or -1 for as many as fit", n)
		}
	}
	atMost("MAX_INTENTS", c.MaxIntents)
	atMost("MAX_BYTES", c.MaxBytes)
	if err := checkURLs(c.URL); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.security(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// names are the derived names of streams, subjects and the consumer.
type names struct {
	intents, results, dead, waiting, journal     string // streams
	newPre, resPre, deadPre, waitPre, journalPre string // subject prefixes, with their final dot
	consumer, bucket                             string
}

// takes returns the name of the stream that takes a new intent.
func (n names) takes(waits bool) string {
	if waits {
		return n.waiting
	}
	return n.intents
}

func (c Config) names() names {
	stream, subject, bucket := "ORDERS", "orders", "ORDERPOST"
	if c.Prefix != "" {
		stream, subject, bucket = c.Prefix+"_"+stream, c.Prefix+"."+subject, c.Prefix+"_"+bucket
	}
	return names{
		intents: stream, results: stream + "_RESULTS", dead: stream + "_DEAD",
		waiting: stream + "_WAITING", journal: stream + "_JOURNAL",
		newPre: subject + ".new.", resPre: subject + ".results.", deadPre: subject + ".dead.",
		waitPre: subject + ".waiting.", journalPre: subject + ".journal.",
		consumer: "workers", bucket: bucket,
	}
}

const (
	// bucketPrefix begins the name of the stream that stores a key-value bucket.
	bucketPrefix = "KV_"
	// maxValue is the largest value of the bucket, in bytes. All programs read the values
	// again and again. The largest that a program writes lists all imports that are held.
	maxValue = 1 << 20
	// waitingReserve is what a move adds to an intent's headers, at most, in bytes.
	waitingReserve = 4 << 10
)

// checkURLs returns an error for a setting that is not a list of NATS URLs,
// before a broker is dialled. In a password, an unescaped / ? # or comma ends
// the address. The beginning of the password would then be dialled and printed
// as host and port. The error never quotes the URL itself.
func checkURLs(list string) error {
	if list == "" {
		return nil
	}
	for _, server := range strings.Split(list, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		websocket := err == nil && strings.HasPrefix(u.Scheme, "ws") && !strings.Contains(u.Path, "@")
		if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Trim(u.Path, "/") != "" && !websocket {
			return fmt.Errorf("ORDERPOST_NATS_URL: %s is not a list of NATS URLs (nats://host:4222,…); write / ? # @ , and %% in a user name or password as %%2F %%3F %%23 %%40 %%2C %%25, "+
				"and a token in front of the host (nats://TOKEN@host:4222)", RedactURL(list))
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return fmt.Errorf("ORDERPOST_NATS_URL: %s: the scheme is nats, tls, ws or wss", RedactURL(list))
		}
		if err := endpoint.Port(u); err != nil {
			return fmt.Errorf("ORDERPOST_NATS_URL: %s: %w", RedactURL(list), err)
		}
	}
	return nil
}

var (
	schemes = regexp.MustCompile(`(^|,)\s*[a-z]{2,5}://`)
	address = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?$`)
)

// RedactURL removes user names, passwords and tokens from a comma-separated
// list of NATS URLs, for messages. It keeps only what is certainly an address.
// After a scheme it hides everything up to the last @, because a password may
// hold unescaped commas and slashes.
func RedactURL(list string) string {
	var out []string
	for list != "" {
		end := len(list)
		if next := schemes.FindAllStringIndex(list, 2); len(next) > 0 && next[0][0] > 0 {
			end = next[0][0]
		} else if len(next) > 1 {
			end = next[1][0]
		}
		out = append(out, redactPart(strings.TrimSpace(list[:end])))
		list = strings.TrimPrefix(list[end:], ",")
	}
	return strings.Join(out, ",")
}

// redactPart redacts a part of the list in which only the first server may have
// a scheme.
func redactPart(part string) string {
	scheme, rest, found := strings.Cut(part, "://")
	if scheme += "://"; !found {
		scheme, rest = "", part
	}
	at := strings.LastIndexByte(rest, '@')
	query := strings.IndexByte(rest, '?')
	if at >= 0 && query >= 0 && query < at && strings.Contains(rest[query:at], "=") {
		return scheme + "***" // ?token=…@…: the @ may belong to the token, or to a password with ? and =
	}
	servers := strings.Split(rest[at+1:], ",")
	for i, s := range servers {
		s = strings.TrimSpace(s)
		bare := s
		if end := strings.IndexAny(s, "/?#"); end >= 0 {
			bare = s[:end]
		}
		switch {
		case !address.MatchString(bare):
			s = "***"
		case bare != s && s != bare+"/":
			s = bare + "/***"
		}
		servers[i] = s
	}
	if at >= 0 {
		servers[0] = "***@" + servers[0]
	}
	return scheme + strings.Join(servers, ",")
}

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
