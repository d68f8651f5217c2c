package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"orderpost/internal/duration"
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
