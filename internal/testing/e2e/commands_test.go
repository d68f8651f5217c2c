package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/cli/sandbox"
	"orderpost/internal/cli/worker"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/xlsxtest"
)

// needsMore are the tools whose commands no test can run: a document that
// names one must say so.
var needsMore = []string{"kubectl", "helm", "docker", "nats", "timedatectl"}

// needsRoot are the tools that change the machine: .ci/packages does in a folder
// what they do. A document that names one must say so, too.
var needsRoot = []string{"apt", "sudoedit", "systemctl", "(umask"}

// asTheUnit begins a command that is run beside the unit's worker; what follows is
// run like any other.
const asTheUnit = "sudo -u orderpost ORDERPOST_DATA_DIR=/var/lib/orderpost "

// elsewhere are the commands that have a test or a step of CI of their own.
var elsewhere = []string{"go run ./cmd/demo", "go test ./...", "go run ./proof/cmd/chaos", "go run ./proof/cmd/simulate", "go run ./proof/cmd/bench",
	"orderpost certify", "set -a; . ./certify.env"}

// programs are ours, by the names that the documents use.
var programs = map[string]cli.RunFunc{"worker": worker.Run, "enqueue": enqueue.Run, "deadletter": deadletter.Run, "sandbox": sandbox.Run,
	"orderpost": orderpost.Run}

var shellBlock = regexp.MustCompile("(?m)^```sh\n((?s:.*?))^```$")

// documents are all that users read.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return append(found, readmePath, "../../../CONTRIBUTING.md")
}

// shellLines gives the commands of a document. Those that need more than this
// machine has are left out, if the document says of them that they do.
func shellLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			tool, _, _ := strings.Cut(line, " ")
			switch {
			case slices.Contains(needsMore, tool):
				require.Regexp(t, `need a [a-z ,]*cluster`, string(text), "%s does not say that %s needs more than this machine has", path, tool)
			case slices.Contains(needsRoot, tool):
				require.Regexp(t, `need a host with systemd .* and root`, strings.ReplaceAll(string(text), "\n", " "), "%s does not say that %s needs root", path, tool)
			case slices.ContainsFunc(elsewhere, func(c string) bool { return strings.HasPrefix(line, c) }):
			default:
				lines = append(lines, strings.TrimPrefix(line, asTheUnit))
			}
		}
	}
	return lines
}

// place is where the documents' commands make sense.
type place struct {
	t        *testing.T
	settings map[string]string
	ops      string
	door     string   // of the worker, for programs over HTTP; "" with roles
	doubtful []string // order numbers with the outcome unknown, one for each document
	commands int
	ending   []*process
}

// newPlace is a folder with the files that the documents name, and a worker
// that has settled orders in several ways. With a server that asks for roles,
// its people have the role operator.
func newPlace(t *testing.T, documents int, secure *secured) *place {
	t.Helper()
	examples, err := filepath.Abs("../../../examples")
	require.NoError(t, err)
	settings, url := api(t, "--fault-drop-after", "1", "--max-faults-per-order", "1")
	for name, value := range map[string]string{"ORDERPOST_OPS_ADDR": "127.0.0.1:0", "ORDERPOST_PPROF": "true", "ORDERPOST_ON_UNSURE": "park",
		"ORDERPOST_BREAKER_RATIO": "0", "ORDERPOST_LOG_LEVEL": "info", "USER": "tester"} {
		settings[name] = value
	}
	t.Chdir(t.TempDir())
	copyExamples(t, examples)
	require.NoError(t, os.WriteFile("answer.txt", []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"code\":7}"), 0o600))
	require.NoError(t, os.WriteFile("orders.ndjson", []byte(`{"order_no":"E-1","timeout":60}`+"\n"), 0o600))
	require.NoError(t, os.WriteFile("orders.csv", []byte("order_no,timeout,amount\nD-1,60,1\nD-2,60,2\n"), 0o600))
	require.NoError(t, os.WriteFile("june.csv", []byte("Orders of June;;;;\n\norder_no;timeout;amount;Notes;\nJ-1;60;1;x;\nJ-2;60;2;;y\n"+strings.Repeat(";;;;\n", 21)+"Total;;3;;\n"), 0o600))
	require.NoError(t, os.WriteFile("theirs.csv", []byte("order_no,reference\nD-1,D-1\nT-1,T-1\n"), 0o600))
	book := xlsxtest.Book{Sheets: []string{`<cols><col min="3" max="3" hidden="1"/></cols><sheetData><row r="1">` + xlsxtest.Texts("order_no", "timeout") +
		`</row><row r="2" hidden="1">` + xlsxtest.Texts("X-1") + `<c><f>6*10</f><v>60</v></c></row></sheetData><autoFilter ref="A1:B2"/><mergeCells><mergeCell ref="A2:A3"/></mergeCells>`}}
	require.NoError(t, os.WriteFile("orders.xlsx", book.Bytes(), 0o600))
	as := func(string) map[string]string { return settings }
	if secure != nil {
		as = func(role string) map[string]string { return secure.as(role, settings) }
	}
	its := maps.Clone(as("worker"))
	if secure == nil {
		its["ORDERPOST_GATEWAY_LISTEN"] = "127.0.0.1:0"
	}
	w := start(t, "orderpost", orderpost.Run, its, "worker") // which takes files, too
	w.saw(&w.errOut, `"message":"working"`)
	address, _, _ := strings.Cut(w.saw(&w.errOut, `"ops":"http://`), `"`)
	p := &place{t: t, settings: as("operator"), ops: "http://" + address}
	if secure == nil {
		p.door = doorOf(w)
	}

	rows := "order_no,timeout\n"
	for i := range documents {
		p.doubtful = append(p.doubtful, fmt.Sprint("DOUBT-", i))
		rows += p.doubtful[i] + ",60\n"
	}
	code, _, errOut := importFile(t, as("producer"), writeFile(t, rows), "--wait")
	require.Equal(t, cli.ExitPartial, code, errOut)
	change(t, url, `{"fault-drop-after":0,"fault-refuse":1}`)
	code, _, errOut = importFile(t, as("producer"), writeFile(t, "order_no,timeout\nREFUSED-1,60\nREFUSED-2,60\n"), "--wait")
	require.Equal(t, cli.ExitPartial, code, errOut)
	change(t, url, `{"fault-refuse":0}`)
	var q *queue.Queue
	if secure != nil {
		q = secure.queue(t, "operator")
	} else {
		q = openStreams(t, settings)
	}
	for no, want := range map[string]order.Outcome{p.doubtful[0]: order.OutcomeUnknown, "REFUSED-1": order.OutcomeRejected} {
		last, err := q.Ledger.Lookup(t.Context(), no)
		require.NoError(t, err)
		require.Equal(t, want, last.Record.Outcome(), no)
	}
	return p
}

// copyExamples links the examples, and takes the beginning of the long one.
func copyExamples(t *testing.T, from string) {
	t.Helper()
	require.NoError(t, os.Mkdir("examples", 0o700))
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != "orders.csv" {
			require.NoError(t, os.Symlink(filepath.Join(from, e.Name()), filepath.Join("examples", e.Name())))
		}
	}
	all, err := os.ReadFile(filepath.Join(from, "orders.csv"))
	require.NoError(t, err)
	first := strings.SplitAfterN(string(all), "\n", 21)
	require.NoError(t, os.WriteFile("examples/orders.csv", []byte(strings.Join(first[:20], "")), 0o600))
}

// run runs a document's lines one after another, as its reader would.
func (p *place) run(path, orderNo string, lines []string) {
	p.t.Helper()
	var environ []string
	for name, value := range p.settings {
		environ = append(environ, name+"="+value)
	}
	var out patient.Buffer
	sh, err := interp.New(interp.Env(expand.ListEnviron(environ...)), interp.StdIO(nil, &out, &out),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return p.exec }))
	require.NoError(p.t, err)
	for _, line := range lines {
		parsed, err := syntax.NewParser().Parse(strings.NewReader(strings.ReplaceAll(line, "ORDER_NO", orderNo)), path)
		require.NoError(p.t, err, "%s: %s", path, line)
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		began := time.Now()
		err = sh.Run(ctx, parsed)
		cancel()
		p.t.Logf("%5d ms: %s", time.Since(began).Milliseconds(), line)
		var status interp.ExitStatus
		if errors.As(err, &status) && status == cli.ExitPartial {
			err = nil // "done, but some did not make it": what it says, not how
		}
		require.NoError(p.t, err, "%s: %s\n%s", path, line, out.String())
	}
}

// exec stands for the programs that a shell would start.
func (p *place) exec(ctx context.Context, args []string) error {
	p.commands++
	h := interp.HandlerCtx(ctx)
	if len(args) > 3 && args[0] == "go" && args[1] == "run" {
		args = append([]string{strings.TrimPrefix(args[2], "./cmd/")}, args[3:]...)
	} else if len(args) == 3 && args[0] == "go" && args[1] == "run" {
		args = []string{strings.TrimPrefix(args[2], "./cmd/")}
	}
	if args[0] == "curl" {
		return p.curl(ctx, args[1:])
	}
	if slices.Contains(args, "--not-before") {
		args = append(args, "--allow-past") // a document's day is over some day
	}
	run, ours := programs[args[0]]
	if !ours {
		return fmt.Errorf("%s: no program of ours, and not in the lists of this test", args[0])
	}
	environ := maps.Clone(p.settings)
	for name, v := range h.Env.Each {
		// What stands for the reader's own API and key stays ours.
		if !slices.Contains([]string{"ORDERPOST_API_URL", "ORDERPOST_API_KEY", "ORDERPOST_API_SECRET", "ORDERPOST_OPS_ADDR"}, name) {
			environ[name] = v.String()
		}
	}
	stdin := h.Stdin
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	switch command := strings.TrimPrefix(strings.Join(args[:min(len(args), 3)], " "), "orderpost "); {
	case command == "worker":
		return p.until(run, environ, `"message":"working"`, args[1:]...)
	case command == "sandbox":
		return p.until(run, environ, "Listening on ", "--addr", "127.0.0.1:0")
	case strings.HasPrefix(command, "deadletter drop"), strings.HasPrefix(command, "worker adopt"), strings.HasPrefix(command, "worker repair"), slices.Contains(args, "--apply"):
		args = append(args, "--yes") // there is nobody to ask
	case command == "console":
		environ["ORDERPOST_CONSOLE_LISTEN"] = "127.0.0.1:0"
		return p.until(run, environ, "Log in once", args[1:]...)
	case command == "gateway":
		environ["ORDERPOST_GATEWAY_LISTEN"] = "127.0.0.1:0"
		return p.until(run, environ, "the HTTP door is open", args[1:]...)
	case command == "watch inbox":
		if err := os.MkdirAll(args[2], 0o750); err != nil {
			return err
		}
		return p.until(run, environ, `"watching"`, args[1:]...)
	case command == "console user":
		stdin = strings.NewReader("what a person would type\n")
	}
	if code := run(ctx, args[1:], environ, stdin, h.Stdout, h.Stderr); code != cli.ExitDone {
		return interp.ExitStatus(code) //nolint:gosec // exit codes are small
	}
	return nil
}

// until runs a program that does not end by itself until it has said text.
func (p *place) until(run cli.RunFunc, environ map[string]string, text string, args ...string) error {
	proc := start(p.t, text, run, environ, args...)
	proc.saw(&proc.errOut, text)
	proc.stop()
	p.ending = append(p.ending, proc) // a worker waits for its last pull
	return nil
}

// curl is curl with the options that the documents use. They name the default addresses.
func (p *place) curl(ctx context.Context, args []string) error {
	method, body, header := http.MethodGet, "", http.Header{}
	for len(args) > 1 {
		switch option := args[0]; option {
		case "-N", "-s", "-sv":
			args = args[1:]
			continue
		case "-H":
			name, value, _ := strings.Cut(args[1], ": ")
			header.Set(name, value)
		case "-X":
			method = args[1]
		case "-T":
			text, err := os.ReadFile(interp.HandlerCtx(ctx).Dir + "/" + args[1])
			if err != nil {
				return err
			}
			body = string(text)
		case "--json":
			method, body = http.MethodPost, args[1]
			header.Set("Content-Type", "application/json")
		default:
			return fmt.Errorf("curl %s: not an option that this test knows", option)
		}
		args = args[2:]
	}
	url := strings.Replace(strings.Replace(args[0], "http://127.0.0.1:9464", p.ops, 1), "http://127.0.0.1:8080", p.door, 1)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header, req.Close = header, true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if header.Get("Accept") != "text/event-stream" { // which does not end
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	if resp.StatusCode >= http.StatusBadRequest && (strings.HasPrefix(url, p.ops) || p.door != "" && strings.HasPrefix(url, p.door)) {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// TestDocumentsCommands runs every command of the documents that this machine
// can run, by the programs' own Run functions.
func TestDocumentsCommands(t *testing.T) {
	paths := documents(t)
	lines := make([][]string, len(paths))
	for i, path := range paths {
		lines[i] = shellLines(t, path)
	}
	began := time.Now()
	p := newPlace(t, len(paths), nil)
	for i, path := range paths {
		p.run(path, p.doubtful[i], lines[i])
		p.run("between two documents", "", []string{"worker resume", "worker limit default"})
	}
	for _, proc := range p.ending {
		require.Equal(t, cli.ExitDone, proc.end(), proc.errOut.String())
	}
	require.Greater(t, p.commands, 50)
	t.Logf("%d commands in %s", p.commands, time.Since(began).Round(time.Millisecond))
}
