package submit

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// Config holds the API's address, the limits on requests, and the retry budgets.
// The names in the env tags get the prefix ORDERPOST_.
type Config struct {
	URL            string   `env:"API_URL" desc:"base URL of the API, without /v1"`
	PlainHTTPHosts []string `env:"PLAIN_HTTP_HOSTS" desc:"hosts beyond loopback to which plain http is allowed, comma-separated"`
	CAFile         string   `env:"API_CA_FILE" desc:"PEM file of certificate authorities to trust in addition to the system's"`
	UserAgent      string   `env:"USER_AGENT" envDefault:"orderpost" desc:"User-Agent of every request"`
	Traceparent    bool     `env:"API_TRACEPARENT" envDefault:"false" desc:"send the order's W3C traceparent header to the API"`

	Concurrency int     `env:"CONCURRENCY" envDefault:"64" desc:"orders in flight at the same time"`
	RateLimit   float64 `env:"RATE_LIMIT" envDefault:"0" desc:"requests per second of the whole fleet; its workers share it, and the lowest setting counts; 0 = no limit"`

	RequestTimeout time.Duration `env:"REQUEST_TIMEOUT" envDefault:"30s" desc:"one request, from the dial to the last byte of the answer"`
	ConnectTimeout time.Duration `env:"CONNECT_TIMEOUT" envDefault:"5s" desc:"name resolution and TCP connect of one request"`
	TLSTimeout     time.Duration `env:"TLS_TIMEOUT" envDefault:"5s" desc:"TLS handshake of one request"`
	HeaderTimeout  time.Duration `env:"HEADER_TIMEOUT" envDefault:"25s" desc:"from the request's last byte to the answer's headers"`
	IdleTimeout    time.Duration `env:"IDLE_TIMEOUT" envDefault:"4s" desc:"how long an unused connection is kept; keep it below the API's own"`
	ResponseLimit  int           `env:"RESPONSE_LIMIT" envDefault:"4096" desc:"bytes of an answer's body that are recorded"`

	RetryBase               time.Duration `env:"RETRY_BASE" envDefault:"200ms" desc:"longest wait before the first retry; doubles with each"`
	RetryMax                time.Duration `env:"RETRY_MAX" envDefault:"10s" desc:"longest wait between two attempts while a worker holds the order"`
	RetrySubmissionAttempts int           `env:"RETRY_SUBMISSION_ATTEMPTS" formerly:"RETRY_VISIT_ATTEMPTS" envDefault:"5" desc:"attempts before the order goes back to the queue with a delay"`
	RetrySubmissionTime     time.Duration `env:"RETRY_SUBMISSION_TIME" formerly:"RETRY_VISIT_TIME" envDefault:"30s" desc:"time, gate excluded, before the order goes back to the queue with a delay"`
	RetryDelayBase          time.Duration `env:"RETRY_DELAY_BASE" envDefault:"10s" desc:"first delay in the queue; doubles with each"`
	RetryDelayMax           time.Duration `env:"RETRY_DELAY_MAX" envDefault:"5m" desc:"longest delay in the queue, and the longest Retry-After that is honoured"`
	RetryTotalAttempts      int           `env:"RETRY_TOTAL_ATTEMPTS" envDefault:"60" desc:"attempts over all submissions before the order is exhausted (or unknown)"`
	RetryTotalAge           time.Duration `env:"RETRY_TOTAL_AGE" envDefault:"24h" desc:"age since the first attempt, gate excluded, at which the order is exhausted (or unknown)"`

	OnUnsure  order.Policy  `env:"ON_UNSURE" envDefault:"resubmit" desc:"after an attempt that may have created the order: resubmit (only where the API refuses or recognises a duplicate order_no) or park"`
	Rules     string        `env:"RULES" desc:"YAML file of rules that read the API's answers"`
	Clock     ClockMode     `env:"CLOCK" envDefault:"local" desc:"whose clock timestamps follow: local or server (corrected by the Date headers of answers)"`
	ClockWarn time.Duration `env:"CLOCK_WARN" envDefault:"2s" desc:"difference to the API's clock at which a warning is logged"`

	GatePatience  time.Duration `env:"GATE_PATIENCE" envDefault:"10s" desc:"how long an order in hand waits at a closed gate before it goes back to the queue"`
	HoldRetry     time.Duration `env:"HOLD_RETRY" envDefault:"15s" desc:"after a hold caused by answers, one order is tried after this time, which doubles up to 16 times; 0 = only a person resumes"`
	RefusalRun    int           `env:"REFUSAL_RUN" envDefault:"20" desc:"number of different orders refused without one acceptance that holds the pool; with fewer orders in hand than that, each worker may first believe one fewer; 0 = never"`
	RefusalQuiet  time.Duration `env:"REFUSAL_QUIET" envDefault:"2s" desc:"time without another answer after which a shorter run of refusals is believed, and during which an order refused or denied before lets others try a closed gate first"`
	BreakerRatio  float64       `env:"BREAKER_RATIO" envDefault:"0.5" desc:"share of failed requests that opens the circuit breaker; 0 = never"`
	BreakerMin    int           `env:"BREAKER_MIN" envDefault:"20" desc:"requests in the window below which the breaker stays closed"`
	BreakerWindow time.Duration `env:"BREAKER_WINDOW" envDefault:"10s" desc:"window over which the breaker counts"`
	BreakerOpen   time.Duration `env:"BREAKER_OPEN" envDefault:"5s" desc:"how often an open breaker asks GET /v1/account; while that answers but orders fail, the time between two orders on trial doubles up to 16 times this"`
	ProbeDelay    time.Duration `env:"PROBE_DELAY" envDefault:"1s" desc:"time before a denied key is probed, doubling up to 5m"`
	KeyReload     time.Duration `env:"KEY_RELOAD" envDefault:"15s" desc:"how often key files are read again; 0 = only when a key is denied"`
}

// gate returns the gate's part of the settings.
func (c Config) gate() gate.Config {
	return gate.Config{Concurrency: c.Concurrency, RateLimit: c.RateLimit, Patience: c.GatePatience, HoldRetry: c.HoldRetry,
		OthersFirst: c.RefusalQuiet, LongestWait: c.RetryDelayMax,
		BreakerRatio: c.BreakerRatio, BreakerMin: c.BreakerMin, BreakerWindow: c.BreakerWindow, BreakerOpen: c.BreakerOpen, ProbeDelay: c.ProbeDelay}
}

// Validate reports every bad setting at once, by the name of its variable.
func (c Config) Validate() error {
	errs := []error{c.validateURL()}
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("ORDERPOST_%s: "+format, append([]any{name}, args...)...))
	}
	for _, d := range c.durations() {
		if d.value < d.min {
			bad(d.name, "%s is below %s", d.value, d.min)
		}
	}
	for _, n := range c.counts() {
		if n.value < n.min {
			bad(n.name, "%d is below %d", n.value, n.min)
		}
	}
	if !(c.RateLimit >= 0 && c.RateLimit <= 1e9) { // this form also catches NaN
		bad("RATE_LIMIT", "%v: give requests per second, or 0 for no limit", c.RateLimit)
	}
	if !(c.BreakerRatio >= 0 && c.BreakerRatio <= 1) {
		bad("BREAKER_RATIO", "%v is not between 0 and 1", c.BreakerRatio)
	}
	if strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		bad("USER_AGENT", "%q: printable ASCII only", c.UserAgent)
	}
	if c.RetryMax < c.RetryBase {
		bad("RETRY_MAX", "%s is below ORDERPOST_RETRY_BASE (%s)", c.RetryMax, c.RetryBase)
	}
	if c.RetryDelayMax < c.RetryDelayBase {
		bad("RETRY_DELAY_MAX", "%s is below ORDERPOST_RETRY_DELAY_BASE (%s)", c.RetryDelayMax, c.RetryDelayBase)
	}
	return errors.Join(errs...)
}

type durationRule struct {
	name       string
	value, min time.Duration
}

func (c Config) durations() []durationRule {
	ms := time.Millisecond
	return []durationRule{
		{"REQUEST_TIMEOUT", c.RequestTimeout, ms}, {"CONNECT_TIMEOUT", c.ConnectTimeout, ms},
		{"TLS_TIMEOUT", c.TLSTimeout, ms}, {"HEADER_TIMEOUT", c.HeaderTimeout, ms}, {"IDLE_TIMEOUT", c.IdleTimeout, ms},
		{"RETRY_BASE", c.RetryBase, ms}, {"RETRY_MAX", c.RetryMax, ms}, {"RETRY_SUBMISSION_TIME", c.RetrySubmissionTime, ms},
		{"RETRY_DELAY_BASE", c.RetryDelayBase, ms}, {"RETRY_DELAY_MAX", c.RetryDelayMax, ms}, {"RETRY_TOTAL_AGE", c.RetryTotalAge, ms},
		{"CLOCK_WARN", c.ClockWarn, ms}, {"GATE_PATIENCE", c.GatePatience, ms}, {"HOLD_RETRY", c.HoldRetry, 0},
		{"REFUSAL_QUIET", c.RefusalQuiet, 0}, {"BREAKER_WINDOW", c.BreakerWindow, 10 * ms}, {"BREAKER_OPEN", c.BreakerOpen, ms},
		{"PROBE_DELAY", c.ProbeDelay, ms}, {"KEY_RELOAD", c.KeyReload, 0},
	}
}

type countRule struct {
	name       string
	value, min int
}

func (c Config) counts() []countRule {
	return []countRule{
		{"CONCURRENCY", c.Concurrency, 1}, {"RESPONSE_LIMIT", c.ResponseLimit, 0},
		{"RETRY_SUBMISSION_ATTEMPTS", c.RetrySubmissionAttempts, 1}, {"RETRY_TOTAL_ATTEMPTS", c.RetryTotalAttempts, 1},
		{"REFUSAL_RUN", c.RefusalRun, 0}, {"BREAKER_MIN", c.BreakerMin, 1},
	}
}

func (c Config) validateURL() error {
	_, err := c.baseURL()
	if err != nil {
		return fmt.Errorf("ORDERPOST_API_URL: %w", err)
	}
	return nil
}

// baseURL parses and checks the base URL. Its errors never show the whole URL, which
// may hold a password.
func (c Config) baseURL() (*url.URL, error) {
	if c.URL == "" {
		return nil, errors.New("is required: the base URL of the API, without /v1")
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	switch {
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("scheme %q: give https://… (or http://… to loopback)", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not hold a query or a fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	if u.Path == "/v1" || strings.HasSuffix(u.Path, "/v1") || strings.Contains(u.Path, "/v1/") {
		return nil, fmt.Errorf("path %q: leave /v1 out, it is appended", u.Path)
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) && !c.plainAllowed(u.Hostname()) {
		return nil, fmt.Errorf("plain http to %s would send the key in clear text: use https, or name the host in ORDERPOST_PLAIN_HTTP_HOSTS", u.Hostname())
	}
	return u, nil
}

func (c Config) plainAllowed(host string) bool {
	for _, h := range c.PlainHTTPHosts {
		if strings.EqualFold(strings.TrimSpace(h), host) {
			return true
		}
	}
	return false
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
