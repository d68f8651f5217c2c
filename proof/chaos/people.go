package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// people are two of them in a run with --approvals, each at a console of their own. anna
// imports workbooks, bob approves or refuses them. What programs and commands store needs two
// logins, so both approve that. This process is the authenticating proxy that names them. A
// nil people takes no part.
type people struct {
	anna, bob *person
	// deciding gets the console at which a decision is about to be sent.
	deciding chan *process

	mu       sync.Mutex
	uploads  map[string]*uploaded // by batch
	answered []decision
	cutOff   int // decisions without an answer
	problems []string
}

// person is somebody at a console.
type person struct {
	name    string
	console *process
	url     string
	client  *http.Client
}

// fate is what bob does with an upload.
type fate string

const (
	approved fate = "approved"
	refused  fate = "refused"
	left     fate = "left" // he never looks at it
)

// uploaded is a workbook that anna imports.
type uploaded struct {
	fate     fate
	orderNos []string
	refused  time.Time // when bob refused it, whether he got an answer or not; zero = he did not
}

// decision is one that a console answered.
type decision struct {
	Name, Act, Batch, Digest string
}

// openPeople starts their consoles. The brokers run, and have their streams.
func (r *rig) openPeople() error {
	if !r.o.approvals {
		return nil
	}
	listen, err := freeAddrs(2)
	if err != nil {
		return err
	}
	urls, err := r.brokerURL()
	if err != nil {
		return err
	}
	open := func(name, listen string) *person {
		jar, _ := cookiejar.New(nil) // without options it returns no error
		console := "console-" + name
		return &person{name: name, url: "http://" + listen,
			client: &http.Client{Jar: jar, Timeout: 15 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			console: &process{name: console, history: r.history, path: r.bin["orderpost"], args: []string{"console"}, log: filepath.Join(r.dir, console+".log"),
				env: append(os.Environ(), "ORDERPOST_NATS_URL="+urls, "ORDERPOST_DATA_DIR="+filepath.Join(r.dir, console), "ORDERPOST_LOG_FORMAT=json", "ORDERPOST_NATS_CONNECT_TIMEOUT=5s",
					"ORDERPOST_CONSOLE_LISTEN="+listen, "ORDERPOST_CONSOLE_PROXIES=127.0.0.1", "ORDERPOST_CONSOLE_USER_HEADER=X-Person", "ORDERPOST_CONSOLE_PROXY_ROLE=importer+approve")}}
	}
	r.people = &people{anna: open("anna", listen[0]), bob: open("bob", listen[1]), deciding: make(chan *process), uploads: make(map[string]*uploaded)}
	for _, p := range r.people.processes() {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func (p *people) processes() []*process {
	if p == nil {
		return nil
	}
	return []*process{p.anna.console, p.bob.console}
}

// peopleFaults are those that only a run with approvals has.
func peopleFaults() []fault {
	return []fault{
		{name: "kill-console", what: "SIGKILL to the console of one of two people", weight: 3, part: approvalsPart,
			least: 100 * time.Millisecond, most: 4 * time.Second, inject: killConsole},
		{name: "kill-decision", what: "SIGKILL to a console up to 40 ms after somebody approved or refused an import there", weight: 4, part: approvalsPart,
			least: 100 * time.Millisecond, most: 2 * time.Second, inject: killDecision},
	}
}

func killConsole(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
	p := r.people.processes()[draw.IntN(2)]
	r.end(p, syscall.SIGKILL)
	return func(context.Context) error { return r.begin(p) }, nil
}

// killDecision waits until somebody decides.
func killDecision(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	after := time.Duration(draw.Int64N(int64(40 * time.Millisecond)))
	select {
	case p := <-r.people.deciding:
		if err := pause(ctx, after); err != nil {
			return nil, err
		}
		r.end(p, syscall.SIGKILL)
		return func(context.Context) error { return r.begin(p) }, nil
	case <-time.After(10 * time.Second):
		return nil, errNoWay
	}
}

// ask sends a request, and returns the status, the text, and where a redirect leads.
func (p *person) ask(ctx context.Context, method, path, contentType string, body io.Reader) (status int, text, to string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		return 0, "", "", err
	}
	req.Header.Set("X-Person", p.name)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, "", "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), resp.Header.Get("Location"), err
}

// look returns a page; "" = it did not come.
func (p *person) look(ctx context.Context, path string) string {
	status, text, _, err := p.ask(ctx, http.MethodGet, path, "", nil)
	if err != nil || status != http.StatusOK {
		return ""
	}
	return text
}

// send sends a form.
func (p *person) send(ctx context.Context, path string, fields ...string) (status int, text, to string, err error) {
	form := make(url.Values)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return p.ask(ctx, http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

// What stands in pages.
var (
	seenField   = regexp.MustCompile(`name="seen" value="([^"]+)"`)
	awaitingRow = regexp.MustCompile(`(?s)<a href="/approval\?batch=([^"&]+)">.*?</tr>`)
	digestFact  = regexp.MustCompile(`<dt>SHA-256 of what waits</dt><dd>([0-9a-f]{64})</dd>`)
	answer      = regexp.MustCompile(`You (approved|refused) it\.`)
	batchFact   = regexp.MustCompile(`<dt>Batch</dt><dd>([0-9a-f]+)</dd>`)
)

func find(pattern *regexp.Regexp, text string) string {
	if m := pattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

const (
	// decideEvery is how often a person looks at what waits for them.
	decideEvery = 300 * time.Millisecond
	// uploadEvery is the pause between two uploads, and uploadRows the size of one.
	uploadEvery = time.Second
	uploadRows  = 40
)

// decideAll lets both people decide until the returned function is called.
func (r *rig) decideAll(ctx context.Context) (stop func()) {
	if r.people == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, p := range []*person{r.people.anna, r.people.bob} {
		all.Go(func() {
			for pause(ctx, decideEvery) == nil {
				for _, row := range awaitingRow.FindAllStringSubmatch(p.look(ctx, "/approvals"), -1) {
					if batch, err := url.QueryUnescape(row[1]); err == nil && strings.Contains(row[0], ">you<") {
						r.people.decide(ctx, p, batch)
					}
				}
				if p == r.people.bob {
					r.people.withdraw(ctx)
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// decide approves or refuses an import, if its page offers that.
func (pp *people) decide(ctx context.Context, p *person, batch string) {
	pp.mu.Lock()
	up, act := pp.uploads[batch], "approve"
	pp.mu.Unlock()
	if up != nil && up.fate == left {
		return
	}
	if up != nil && up.fate == refused {
		act = "refuse"
	}
	text := p.look(ctx, "/approval/"+act+"?batch="+url.QueryEscape(batch))
	d := decision{p.name, act, batch, find(digestFact, text)}
	if d.Digest == "" {
		return // it is being read, or somebody decided
	}
	select {
	case pp.deciding <- p.console: // somebody is about to kill it
	default:
	}
	status, text, to, err := p.send(ctx, "/approval/"+act, "batch", batch, "seen", find(seenField, text), "note", "chaos")
	if status == http.StatusSeeOther {
		text = p.look(ctx, to)
	}
	pp.note(d, status, text, err, ctx.Err() != nil)
}

// note notes what a console answered to a decision.
func (pp *people) note(d decision, status int, text string, err error, over bool) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	problem := func(format string, args ...any) { pp.problems = append(pp.problems, fmt.Sprintf(format, args...)) }
	if up := pp.uploads[d.Batch]; up != nil && d.Act == "refuse" {
		up.refused = time.Now()
	}
	switch {
	case over:
	case err != nil || status >= 500 || text == "":
		pp.cutOff++
	case status == http.StatusSeeOther && !answer.MatchString(text): // it was being read anew, and nothing was done
	case status == http.StatusSeeOther:
		for _, before := range pp.answered {
			if before == d {
				problem("import %s: %s could %s it twice: the first answer was lost", d.Batch, d.Name, d.Act)
			}
		}
		pp.answered = append(pp.answered, d)
	case status != http.StatusConflict: // somebody decided or cancelled meanwhile
		problem("import %s: %s of %s: status %d: %s", d.Batch, d.Act, d.Name, status, lastPart(text))
	}
}

// withdrawAfter is how long bob waits for the console to withdraw what he refused. One that
// was killed does not.
const withdrawAfter = 5 * time.Second

// withdraw cancels what was refused and still waits.
func (pp *people) withdraw(ctx context.Context) {
	pp.mu.Lock()
	var late []string
	for batch, up := range pp.uploads {
		if !up.refused.IsZero() && time.Since(up.refused) > withdrawAfter {
			late = append(late, batch)
			up.refused = time.Now()
		}
	}
	pp.mu.Unlock()
	for _, batch := range late {
		if !strings.Contains(pp.bob.look(ctx, "/approval?batch="+url.QueryEscape(batch)), "bob refused it at") {
			continue // it did not count, and he is asked again
		}
		if text := pp.bob.look(ctx, "/import/cancel?batch="+url.QueryEscape(batch)); find(seenField, text) != "" {
			_, _, _, _ = pp.bob.send(ctx, "/import/cancel", "batch", batch, "seen", find(seenField, text)) // he looks again
		}
	}
}

// upload lets anna import one workbook after another until enough ends, each until all of its
// rows are stored.
func (r *rig) upload(ctx context.Context, enough <-chan struct{}) error {
	if r.people == nil {
		return nil
	}
	q, err := r.open(ctx, "chaos uploads")
	if err != nil {
		return err
	}
	defer q.Close()
	for i := 0; pauseUntil(ctx, enough, uploadEvery); i++ {
		name := fmt.Sprintf("U%d-%04d", r.o.seed, i)
		path, orderNos, err := r.table(name, ".xlsx", uploadRows)
		if err != nil {
			return err
		}
		for _, no := range orderNos {
			r.intents.attempt(no)
		}
		up := &uploaded{fate: [...]fate{approved, refused, approved, left}[i%4], orderNos: orderNos}
		if err := r.people.imports(ctx, q, path, up); err != nil {
			return err
		}
		switch up.fate {
		case approved:
			r.intents.confirm(order.OutcomeNone, orderNos...)
		case refused:
			r.intents.confirm(order.OutcomeCancelled, orderNos...)
		case left: // it has no outcome
		}
	}
	return nil
}

// imports uploads a workbook and imports it, again and again until every row is stored.
func (pp *people) imports(ctx context.Context, q *queue.Queue, path string, up *uploaded) error {
	at := ""
	for said := ""; ; {
		if at == "" {
			at = pp.bring(ctx, path)
		}
		status, text, _, err := pp.anna.ask(ctx, http.MethodGet, at, "", nil)
		seen, batch := find(seenField, text), find(batchFact, text)
		running := strings.Contains(text, `class="job"`)
		switch {
		case at == "", err != nil, status >= 500, running: // the console is away, or at work
		case status != http.StatusOK, batch == "": // it was killed before it kept the file or checked it
			at = ""
		default:
			pp.mu.Lock()
			pp.uploads[batch] = up
			pp.mu.Unlock()
			if done, err := stored(ctx, q, batch, len(up.orderNos)); done {
				return nil
			} else if err == nil {
				fields := []string{"seen", seen}
				if strings.Contains(text, `name="resume"`) {
					fields = append(fields, "resume", "on")
				}
				_, said, _, _ = pp.anna.send(ctx, at+"/import", fields...) // the next look says what came of it
			}
		}
		if err := pause(ctx, decideEvery); err != nil {
			return fmt.Errorf("%w: the upload of %s is not done (%w): %s", err, path, err, lastPart(text+said))
		}
	}
}

// bring uploads a file, and returns the path of its page; "" = nobody knows whether it came.
func (pp *people) bring(ctx context.Context, path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", filepath.Base(path))
	if err == nil {
		_, err = part.Write(content)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return ""
	}
	_, _, to, _ := pp.anna.ask(ctx, http.MethodPost, "/upload", form.FormDataContentType(), &body)
	return to
}

// stored reports whether the broker has all rows of an import.
func stored(ctx context.Context, q *queue.Queue, batch string, rows int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	imp, err := imports.ReadImport(ctx, q, batch)
	return err == nil && imp != nil && imp.Done == rows && !imp.Storing, err
}

// leaves returns how many orders wait because bob never looks at their imports.
func (pp *people) leaves() (n uint64) {
	if pp == nil {
		return 0
	}
	pp.mu.Lock()
	defer pp.mu.Unlock()
	for _, up := range pp.uploads {
		if up.fate == left {
			n += uint64(len(up.orderNos))
		}
	}
	return n
}
