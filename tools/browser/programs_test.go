package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/patient"
)

// programs is the folder with the programs. It is removed after the tests.
var programs string

// build builds them when the first test needs them.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "./cmd/orderpost", "./cmd/sandbox")
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	return cmd.Run()
})

// program is a running program.
type program struct {
	*testing.T
	*exec.Cmd
	ended chan struct{}
	said  patient.Buffer
}

// command is a program with settings of its own and none of this machine's.
func command(t *testing.T, dir string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	require.NoError(t, build())
	cmd := exec.CommandContext(context.Background(), filepath.Join(programs, name), args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "USER=anna", "NO_COLOR=1"}, env...)
	return cmd
}

// start starts a program that runs until it is stopped.
func start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{T: t, Cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	require.NoError(t, cmd.Start())
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its output says more than its exit code
	}()
	t.Cleanup(func() { p.kill() })
	return p
}

// says waits until the program has printed something, and returns what the group
// matched last.
func (p *program) says(pattern *regexp.Regexp) (found string) {
	p.Helper()
	seen := func() bool {
		all := pattern.FindAllStringSubmatch(p.said.String(), -1)
		if len(all) == 0 {
			return false
		}
		last := all[len(all)-1]
		found = last[len(last)-1]
		return true
	}
	for began := time.Now(); !seen(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			require.Fail(p, "it has ended", "%s\n%s", p.Path, p.said.String())
		default:
		}
		require.Less(p, time.Since(began), patience, "%s does not say %s\n%s", p.Path, pattern, p.said.String())
	}
	return found
}

// stop ends the program as an operator would.
func (p *program) stop() {
	p.Helper()
	require.NoError(p, p.Process.Signal(os.Interrupt))
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.Fail(p, "it did not stop", "%s\n%s", p.Path, p.said.String())
	}
}

// kill ends the program at once.
func (p *program) kill() {
	_ = p.Process.Kill() // it may have ended
	<-p.ended
}
