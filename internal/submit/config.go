package submit

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/platform/endpoint"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
)

// Config holds the API's address, the limits on requests, and the retry budgets.
// The names in the env tags get the prefix ORDERPOST_.
type Config struct {
	URL            string   `env:"API_URL" desc:"base URL of the API, without /v1"`
	PlainHTTPHosts []string `env:"PLAIN_HTTP_HOSTS" desc:"hosts beyond loopback to which plain http is allowed, comma-separated"`
	CAFile         string   `env:"API_CA_FILE" desc:"PEM file of authorities to trust for the API, besides the system's"`
	TLSCertFile    string   `env:"API_TLS_CERT_FILE" desc:"PEM file of the certificate that the API is shown (mutual TLS), read again with its key when it changes"`
	TLSKeyFile     string   `env:"API_TLS_KEY_FILE" desc:"PEM file of the certificate's key"`
	Traceparent    bool     `env:"API_TRACEPARENT" envDefault:"false" desc:"send the order's W3C traceparent header to the API"`

	Concurrency int     `env:"CONCURRENCY" envDefault:"64" desc:"orders in flight at the same time"`
	RateLimit   float64 `env:"RATE_LIMIT" envDefault:"0" desc:"requests per second of the whole fleet; the lowest setting of its workers counts; 0 = no limit"`

	RequestTimeout time.Duration `env:"REQUEST_TIMEOUT" envDefault:"30s" desc:"one request, from the dial to the last byte of the answer"`
	IdleTimeout    time.Duration `env:"IDLE_TIMEOUT" envDefault:"4s" desc:"how long an unused connection is kept; keep it below the API's own"`

	RetryDelayMax      time.Duration `env:"RETRY_DELAY_MAX" envDefault:"5m" desc:"longest delay in the queue, and the longest Retry-After that is honoured"`
	RetryTotalAttempts int           `env:"RETRY_TOTAL_ATTEMPTS" envDefault:"60" desc:"attempts over all submissions before the order is exhausted (or unknown)"`
	RetryTotalAge      time.Duration `env:"RETRY_TOTAL_AGE" envDefault:"24h" desc:"age since the first attempt, gate excluded, at which the order is exhausted (or unknown)"`

	OnUnsure order.Policy `env:"ON_UNSURE" envDefault:"resubmit" desc:"after an attempt that may have created the order: resubmit (only where the API refuses or recognises a duplicate order_no) or park"`
	Rules    string       `env:"RULES" desc:"YAML file of rules that read the API's answers; read again when it changes"`
	Clock    ClockMode    `env:"CLOCK" envDefault:"local" desc:"whose clock timestamps follow: local or server (corrected by the Date headers of answers)"`

	HoldRetry    time.Duration `env:"HOLD_RETRY" envDefault:"15s" desc:"when one order is tried after a hold caused by answers; doubles up to 16 times; 0 = only a person resumes"`
	RefusalRun   int           `env:"REFUSAL_RUN" envDefault:"20" desc:"orders refused without one acceptance that hold the pool; a worker with fewer in hand may first believe one fewer; 0 = never"`
	BreakerRatio float64       `env:"BREAKER_RATIO" envDefault:"0.5" desc:"share of failed requests that opens the circuit breaker; 0 = never"`

	// Tuning is not read from the environment. The zero value means [DefaultTuning].
	Tuning `env:"-"`
}

// Tuning holds the times and limits that follow from how the submitter works, not
// from an API or a deployment. Only tests use other values than those of
// [DefaultTuning].
type Tuning struct {
	ConnectTimeout time.Duration // name resolution and TCP connect of one request
	TLSTimeout     time.Duration // TLS handshake of one request
	ResponseLimit  int           // bytes of an answer's body that are recorded

	RetryBase               time.Duration // longest wait before the first retry; doubles with each
	RetryMax                time.Duration // longest wait between two attempts while a worker holds the order
	RetrySubmissionAttempts int           // attempts before the order goes back to the queue with a delay
	RetrySubmissionTime     time.Duration // time, gate excluded, before the order goes back to the queue with a delay
	RetryDelayBase          time.Duration // first delay in the queue, at most RetryDelayMax; doubles with each

	GatePatience time.Duration // how long an order in hand waits at a closed gate before it goes back to the queue
	RefusalQuiet time.Duration // see refusals.go; also how long an order refused or denied before lets others try a closed gate first
	BreakerMin   int           // requests in the window below which the breaker stays closed
	BreakerOpen  time.Duration // time until an open breaker asks GET /v1/account, doubling up to 4 times this; the time between two orders on trial doubles up to 16 times this
	ProbeDelay   time.Duration // time before a denied key is probed, doubling up to 5m
	KeyReload    time.Duration // how often key files are read again; 0 = only when a key is denied
}

// DefaultTuning returns the values with which the programs run.
func DefaultTuning() Tuning {
	return Tuning{
		ConnectTimeout: 5 * time.Second, TLSTimeout: 5 * time.Second, ResponseLimit: 4096,
		RetryBase: 200 * time.Millisecond, RetryMax: 10 * time.Second,
		RetrySubmissionAttempts: 5, RetrySubmissionTime: 30 * time.Second, RetryDelayBase: 10 * time.Second,
		GatePatience: 10 * time.Second, RefusalQuiet: 2 * time.Second,
		BreakerMin: 20, BreakerOpen: 5 * time.Second, ProbeDelay: time.Second, KeyReload: 15 * time.Second,
	}
}

// breakerWindow is the time over which the breaker counts.
const breakerWindow = 10 * time.Second

// The paths of the API below its base URL (docs/signing.md).
const (
	orderPath   = "/v1/order/create"
	accountPath = "/v1/account"
)

// http returns the HTTP client's part of the settings. base is that of baseURL.
func (c Config) http(base *url.URL, rules *answer.Rules) http1.Config {
	at := func(path string) *url.URL {
		u := *base
		u.Path += path
		return &u
	}
	return http1.Config{Orders: at(orderPath), Account: at(accountPath), Base: base, CAFile: c.CAFile, CertFile: c.TLSCertFile, KeyFile: c.TLSKeyFile,
		ConnectTimeout: c.ConnectTimeout, TLSTimeout: c.TLSTimeout, RequestTimeout: c.RequestTimeout, IdleTimeout: c.IdleTimeout,
		AllHeaders: c.Rules != "", OtherOrderNo: rules.AllowsOtherOrderNo} // a rule may read any header
}

// CheckFiles returns what is wrong with the files of certificates, or with the proxy of the environment.
// Validate has looked at everything else.
func (c Config) CheckFiles() error {
	if c.validateURL() != nil {
		return nil // Validate has reported it
	}
	_, err := c.Client()
	return err
}

// Client returns a client for the API of these settings. It sends nothing. The caller must call Close.
func (c Config) Client() (*http1.Client, error) {
	base, err := c.baseURL()
	if err != nil {
		return nil, err
	}
	if c.Tuning == (Tuning{}) {
		c.Tuning = DefaultTuning()
	}
	return http1.New(c.http(base, nil))
}

// RuleTimes returns what bounds the times in the rules.
func (c Config) RuleTimes() answer.Times {
	return answer.Times{Request: c.RequestTimeout, Longest: c.RetryDelayMax}
}

// gate returns the gate's part of the settings.
func (c Config) gate() gate.Config {
	return gate.Config{Concurrency: c.Concurrency, RateLimit: c.RateLimit, Patience: c.GatePatience, HoldRetry: c.HoldRetry,
		OthersFirst: c.RefusalQuiet, LongestWait: c.RetryDelayMax,
		BreakerRatio: c.BreakerRatio, BreakerMin: c.BreakerMin, BreakerWindow: breakerWindow, BreakerOpen: c.BreakerOpen, ProbeDelay: c.ProbeDelay}
}

// Validate reports every bad setting at once, by the name of its variable.
func (c Config) Validate() error {
	errs := []error{c.validateURL()}
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("ORDERPOST_%s: "+format, append([]any{name}, args...)...))
	}
	for name, d := range map[string]time.Duration{"REQUEST_TIMEOUT": c.RequestTimeout, "IDLE_TIMEOUT": c.IdleTimeout,
		"RETRY_DELAY_MAX": c.RetryDelayMax, "RETRY_TOTAL_AGE": c.RetryTotalAge} {
		if d < time.Millisecond {
			bad(name, "%s is below 1ms", d)
		}
	}
	if !(c.BreakerRatio >= 0 && c.BreakerRatio <= 1) {
		bad("BREAKER_RATIO", "%v is not between 0 and 1", c.BreakerRatio)
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		bad("API_TLS_CERT_FILE", "a certificate needs its key (ORDERPOST_API_TLS_KEY_FILE), and a key its certificate")
	}
	if c.HoldRetry < 0 {
		bad("HOLD_RETRY", "%s is below 0", c.HoldRetry)
	}
	if c.Concurrency < 1 {
		bad("CONCURRENCY", "%d is below 1", c.Concurrency)
	}
	if c.RetryTotalAttempts < 1 {
		bad("RETRY_TOTAL_ATTEMPTS", "%d is below 1", c.RetryTotalAttempts)
	}
	if c.RefusalRun < 0 {
		bad("REFUSAL_RUN", "%d is below 0", c.RefusalRun)
	}
	if !(c.RateLimit >= 0 && c.RateLimit <= 1e9) { // this form also catches NaN
		bad("RATE_LIMIT", "%v: give requests per second, or 0 for no limit", c.RateLimit)
	}
	return errors.Join(errs...)
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
	u, err := endpoint.HTTP(c.URL, "the key", c.PlainHTTPHosts)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, errors.New("must not hold a query")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	if u.Path == "/v1" || strings.HasSuffix(u.Path, "/v1") || strings.Contains(u.Path, "/v1/") {
		return nil, fmt.Errorf("path %q: leave /v1 out, it is appended", u.Path)
	}
	return u, nil
}
