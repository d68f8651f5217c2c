package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/worker"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// rig is a broker with streams, a worker's connection to it, and a console.
type rig struct {
	*testing.T
	broker *queuetest.Broker
	worker *queue.Queue
	folder string
	*Server

	viewers *queue.Queue // nil = the console's own

	bodyTime time.Duration // 0 = the console's own

	ahead atomic.Int64 // how far the console's clock is ahead, in nanoseconds

	formsMux  *http.ServeMux
	freeForms map[string]string // why, by the route's pattern

	mu   sync.Mutex
	said []string // what was printed in the terminal
}

// newRig starts a console. change changes its settings.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{T: t, broker: queuetest.Start(t)}
	r.worker = r.open("worker", true)
	r.Server = r.console(change...)
	return r
}

func (r *rig) open(name string, worker bool) *queue.Queue {
	r.Helper()
	return queuetest.Open(r, r.broker, name, func(c *queue.Config) {
		if !worker {
			queuetest.AsCommand(c)
			c.Missing, c.BrokerWait, c.Tell = queue.LeaveMissing, time.Minute, func(string) {}
		}
	})
}

// besideWorker calls do beside a worker that is held: it posts nothing, and settles what
// people cancel.
func (r *rig) besideWorker(do func()) {
	r.Helper()
	t, s := r.T, r.broker
	url := strings.Replace(s.URL, "://", "://"+s.Token+"@", 1)
	cfg := queue.DefaultConfig()
	cfg.URL = url
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	defer q.Close()
	control := fleet.New(q)
	require.NoError(t, control.SetHold(t.Context(), fleet.Hold{Reason: "test", Since: time.Now().UTC()}))
	ctx, stop := context.WithCancel(context.Background())
	code, said := make(chan int, 1), &bytes.Buffer{}
	go func() {
		code <- worker.Run(ctx, []string{"--no-preflight"}, map[string]string{"ORDERPOST_NATS_URL": url, "ORDERPOST_API_URL": "http://127.0.0.1:9",
			"ORDERPOST_API_KEY": "key", "ORDERPOST_API_SECRET": "secret", "ORDERPOST_OPS_ADDR": ""}, nil, io.Discard, zerolog.SyncWriter(said))
	}()
	defer func() {
		stop()
		require.Equal(t, cli.ExitDone, <-code, said)
		require.NoError(t, control.Resume(context.Background(), "test"))
	}()
	require.Eventually(t, func() bool {
		present, err := control.Workers(t.Context())
		return err == nil && len(present)+len(code) > 0
	}, time.Minute, 5*time.Millisecond)
	do()
}

// settingsFor returns the settings of an empty environment, on a free port.
func settingsFor(t *testing.T, change ...func(*Config)) Config {
	t.Helper()
	var cfg Config
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_CONSOLE_LISTEN": "127.0.0.1:0"}))
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

// data is the console's data folder, the same after a restart of it.
func (r *rig) data() string {
	if r.folder == "" {
		r.folder = r.TempDir()
	}
	return r.folder
}

func (r *rig) console(change ...func(*Config)) *Server {
	r.Helper()
	s, err := Listen(r.Context(), Options{Config: settingsFor(r.T, change...), Queue: r.open("console", false), Viewers: r.viewers, DataDir: r.data(), Version: "test", Starter: "anna", Log: zerolog.Nop(),
		bodyTime: r.bodyTime, now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) },
		Announce: func(line string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, line)
		}})
	require.NoError(r, err)
	r.Cleanup(s.Stop)
	return s
}

// lastLink returns the one-time link that was printed last.
func (r *rig) lastLink() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, link, found := strings.Cut(r.said[len(r.said)-1], "minutes: ")
	require.True(r, found, r.said)
	return link
}

// browser is a person's browser. It follows redirects.
type browser struct {
	*rig
	http.Client
	base   string
	header http.Header // of each request
}

func (r *rig) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(r, err)
	transport := &http.Transport{}
	r.Cleanup(transport.CloseIdleConnections)
	return &browser{rig: r, Client: http.Client{Jar: jar, Transport: transport}, base: r.URL(), header: http.Header{}}
}

// loggedIn is a browser of the person who started the console.
func (r *rig) loggedIn() *browser {
	r.Helper()
	b := r.browser()
	b.open(http.StatusOK, strings.TrimPrefix(r.lastLink(), r.URL()))
	return b
}

// answer is a page as the browser got it.
type answer struct {
	*http.Response
	page string
}

// seenField is the hidden field that carries what a page shows.
var seenField = regexp.MustCompile(`<input type="hidden" name="seen" value="([^"]*)">`)

// seenAt returns what the page of a form shows, as its form carries it; "" = there is no
// such page for this person.
func (b *browser) seenAt(path string, form url.Values) string {
	b.Helper()
	if path == "/letters/act" || path == "/letters/export" { // the list reads letters a moment later
		last, err := deadletter.LastLetter(b.T.Context(), b.worker)
		require.NoError(b, err)
		return fmt.Sprint(last)
	}
	if batch := form.Get("batch"); batch != "" {
		path += "?batch=" + url.QueryEscape(batch)
	}
	if act := form.Get("act"); act != "" && strings.HasPrefix(path, "/approval/") {
		path += "?act=" + url.QueryEscape(act)
	}
	a := b.do(http.MethodGet, path, nil)
	if found := seenField.FindStringSubmatch(a.page); found != nil {
		return found[1]
	}
	return ""
}

// free reports whether the form of a path needs not carry what its page shows.
func (r *rig) free(path string) bool {
	_, pattern := r.forms().Handler(httptest.NewRequest(http.MethodPost, path, nil))
	return pattern == "" || r.freeForms[pattern] != ""
}

// forms finds the route of a form.
func (r *rig) forms() *http.ServeMux {
	if r.formsMux == nil {
		r.formsMux, r.freeForms = http.NewServeMux(), make(map[string]string)
		for _, rt := range routes() {
			if strings.HasPrefix(rt.pattern, "POST ") {
				r.formsMux.Handle(rt.pattern, http.NotFoundHandler())
				r.freeForms[rt.pattern] = rt.free
			}
		}
	}
	return r.formsMux
}

// do sends a request. A form without the field "seen" gets it from its page, as in a
// browser; one with an empty field is sent without.
func (b *browser) do(method, path string, form url.Values) answer {
	b.Helper()
	var body io.Reader
	if form != nil {
		if _, given := form["seen"]; !given && !b.free(path) {
			form.Set("seen", b.seenAt(path, form))
		}
		if form.Get("seen") == "" {
			form.Del("seen")
		}
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(b.T.Context(), method, b.base+path, body)
	require.NoError(b, err)
	for name, values := range b.header {
		req.Header[name] = values
	}
	if host := b.header.Get("Host"); host != "" {
		req.Host = host
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if req.Header.Get("Sec-Fetch-Site") == "" {
			req.Header.Set("Sec-Fetch-Site", "same-origin")
		}
	}
	resp, err := b.Do(req)
	require.NoError(b, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	return answer{resp, string(text)}
}

// open returns the page at a path, which must have the status.
func (b *browser) open(status int, path string) string {
	b.Helper()
	a := b.do(http.MethodGet, path, nil)
	require.Equal(b, status, a.StatusCode, "%s\n%s", path, a.page)
	return a.page
}

// send posts a form and returns the page that the browser ends at.
func (b *browser) send(status int, path string, pairs ...string) string {
	b.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], strings.ReplaceAll(lines(pairs[i+1]), "\n", "\r\n")) // as browsers do
	}
	a := b.do(http.MethodPost, path, form)
	require.Equal(b, status, a.StatusCode, "%s\n%s", path, a.page)
	return a.page
}

var tags = regexp.MustCompile(`(?s)<[^>]*>`)

// text is what a person reads on a page.
func text(page string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
}

// usersFile writes a file with one user for each role. The password is the role's
// name three times.
func usersFile(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, rights := range []string{"viewer", "importer", "operator", "operator+resubmit-unknown"} {
		name := rights
		if strings.Contains(rights, "+") {
			name = "chief"
		}
		hash, err := bcrypt.GenerateFromPassword([]byte(strings.Repeat(name, 3)), bcrypt.MinCost)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s:%s:%s\n", name, rights, hash)
	}
	path := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// as is a browser of a person from usersFile.
func (r *rig) as(name string) *browser {
	r.Helper()
	b := r.browser()
	b.send(http.StatusOK, "/login", "name", name, "password", strings.Repeat(name, 3))
	return b
}

// settles brings an order to an end that the report decides.
func (r *rig) settles(no string, report order.Report) {
	r.Helper()
	name, err := json.Marshal(no)
	require.NoError(r, err)
	body := fmt.Appendf(nil, `{"order_no":%s,"timeout":30,"secret_field":"of the body"}`, name)
	res := r.worker.PublishMany(r.Context(), []settle.Intent{{OrderNo: no, Body: body, ID: "march:" + no, Batch: "march", Source: "march.csv:7"}})
	require.NoError(r, res[0].Err)
	var got []*settle.Delivery
	for start := time.Now(); len(got) == 0 && time.Since(start) < time.Minute; {
		require.NoError(r, r.worker.Pull(r.Context(), 1, time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	require.Len(r, got, 1)
	_, err = r.worker.Worker.Settle(r.Context(), got[0], &report, order.Decide(&report, order.Facts{}))
	require.NoError(r, err)
	got[0].Release()
	require.Eventually(r, func() bool {
		_ = r.worker.Trimmer.Trim(r.Context())
		room, err := r.worker.Census.Room(r.Context())
		return err == nil && room.Msgs == 0
	}, time.Minute, 5*time.Millisecond)
}

// answered is the report of one attempt that was answered.
func answered(v order.Verdict, status int, reason, response string) order.Report {
	now := time.Now().UTC()
	return order.Report{End: order.EndAnswer, Verdict: v, Status: status, Reason: reason, Response: response,
		History: order.History{Attempts: 1, Unsure: v == order.Unsure, FirstAttemptAt: now, LastAttemptAt: now}}
}

// letter returns the dead letter of an order.
func (r *rig) letter(no string) *settle.Letter {
	r.Helper()
	var found *settle.Letter
	require.NoError(r, deadletter.EachLetter(r.Context(), r.worker, func(l *settle.Letter) error {
		if l.OrderNo == no {
			found = l
		}
		return nil
	}))
	require.NotNil(r, found, no)
	return found
}

// fillJournal makes the journal refuse entries.
func (r *rig) fillJournal() {
	r.Helper()
	r.did(journal.About{Kind: journal.Export}, nil)
	nc, err := nats.Connect(r.broker.URL, nats.Token(r.broker.Token), nats.Timeout(time.Minute))
	require.NoError(r, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(r, err)
	s, err := js.Stream(r.T.Context(), "ORDERS_JOURNAL")
	require.NoError(r, err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = 1
	_, err = js.UpdateStream(r.T.Context(), cfg)
	require.NoError(r, err)
}

// doubts leaves an order in doubt.
func (r *rig) doubts(no string) {
	r.Helper()
	report := answered(order.Unsure, 504, "timeout", "")
	report.End = order.EndTotalBudget
	r.settles(no, report)
}

// waiting is a job that does something until it is stopped.
func waiting(ctx context.Context, job *jobs.Job) (any, error) {
	job.Tell(jobs.Progress{Step: "3 dropped", Done: 4, Of: 9})
	<-ctx.Done()
	return deadletter.Tally{Fates: map[deadletter.Fate]int{deadletter.Dropped: 3}}, ctx.Err()
}
