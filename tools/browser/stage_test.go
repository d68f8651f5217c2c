package browser

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// stage is an installation of the real programs: the sandbox, a worker with the broker
// inside it, and a console beside it.
type stage struct {
	*testing.T
	dir     string
	env     []string
	api     string // the sandbox's address
	sandbox *program
	worker  *program
	console *program
	address string      // the console's host:port; it stays over a restart
	login   *sync.Mutex // held while a link is printed and used
}

var (
	listening = regexp.MustCompile(`Listening on (\S+)`)
	working   = regexp.MustCompile(`"message":"(working)"`)
	serving   = regexp.MustCompile(`Console: (\S+)`)
	oneTime   = regexp.MustCompile(`minutes: (\S+)`)
)

// newStage starts the programs on a data folder without orders, or with those that
// fill has stored.
func newStage(t *testing.T, fill func(dir string), settings ...string) *stage {
	t.Helper()
	s := &stage{T: t, dir: t.TempDir(), address: freeAddress(t), login: new(sync.Mutex)}
	data := filepath.Join(s.dir, "data")
	if fill != nil {
		fill(data)
	}
	// The sandbox refuses some orders, and creates some without an answer.
	s.sandbox = start(t, command(t, s.dir, nil, "sandbox", "--addr", "127.0.0.1:0", "--fault-refuse", "0.02", "--fault-drop-after", "0.004", "--seed", "1"))
	s.api = s.sandbox.says(listening)
	s.env = append([]string{"ORDERPOST_DATA_DIR=" + data, "ORDERPOST_API_URL=" + s.api, "ORDERPOST_API_KEY=sandbox-key", "ORDERPOST_API_SECRET=sandbox-secret",
		"ORDERPOST_OPS_ADDR=127.0.0.1:0", "ORDERPOST_NATS_LISTEN=127.0.0.1:0", "ORDERPOST_LOG_FORMAT=json", "ORDERPOST_ON_UNSURE=park", "ORDERPOST_WORKER_NAME=worker-1",
		"ORDERPOST_CONSOLE_LISTEN=" + s.address}, settings...)
	s.startWorker()
	s.startConsole()
	return s
}

// freeAddress is one that a program can listen on again after a restart.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (s *stage) startWorker() {
	s.Helper()
	s.worker = start(s.T, command(s.T, s.dir, s.env, "orderpost", "worker"))
	s.worker.says(working)
}

func (s *stage) startConsole() {
	s.Helper()
	s.console = start(s.T, command(s.T, s.dir, s.env, "orderpost", "console"))
	require.Equal(s, "http://"+s.address, s.console.says(serving))
}

// link returns the one-time link that the console printed last.
func (s *stage) link() string {
	s.Helper()
	return s.console.says(oneTime)
}

// orderpost runs a command to its end, which must have the exit code, and returns what
// it printed.
func (s *stage) orderpost(code int, args ...string) string {
	s.Helper()
	cmd := command(s.T, s.dir, s.env, "orderpost", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // its exit code follows
	require.Equal(s, code, cmd.ProcessState.ExitCode(), "%s\n%s", args, out.String())
	return out.String()
}

// file writes a file of orders. Each line is a row.
func (s *stage) file(name string, lines ...string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// sandboxSet changes settings of the sandbox, or its keys.
func (s *stage) sandboxSet(method, path, body string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.api+"/_sandbox/"+path, strings.NewReader(body))
	require.NoError(s, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s, err)
	require.NoError(s, resp.Body.Close())
	require.Less(s, resp.StatusCode, 300, "%s %s", method, path)
}

// visitor opens a window that is not logged in.
func (s *stage) visitor(scripts bool) *page {
	s.Helper()
	return open(s.T, "http://"+s.address, scripts)
}

// loggedIn opens a window of the person who started the console.
func (s *stage) loggedIn(scripts bool) *page {
	s.Helper()
	p := s.visitor(scripts)
	s.logIn(p)
	return p
}

// in is the stage for a test within the stage's test.
func (s *stage) in(t *testing.T) *stage {
	within := *s
	within.T = t
	return &within
}

// logIn logs in as whoever lost the first link does.
func (s *stage) logIn(p *page) {
	s.Helper()
	s.login.Lock()
	defer s.login.Unlock()
	s.open(p, "/login")
	p.click("Print a new link in the terminal")
	p.sees("A new link was printed")
	p.goTo(s.link())
	p.sees("Overview")
}

// open goes to a path of the console.
func (s *stage) open(p *page, path string) {
	s.Helper()
	p.goTo("http://" + s.address + path)
}

// user writes a file of users with one line, made by the command.
func (s *stage) user(name, role, password string) string {
	s.Helper()
	cmd := command(s.T, s.dir, s.env, "orderpost", "console", "user", name, "--role", role)
	cmd.Stdin = strings.NewReader(password + "\n")
	line, err := cmd.Output()
	require.NoError(s, err)
	return s.file("users", strings.TrimSpace(string(line)))
}
