package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// command is a program for people, or one form of it, that runs again and again as a
// process of its own while faults come and go.
type command struct {
	program string
	args    func(r *rig) []string // returns nil if there is nothing to run it on yet
	// codes lists the documented exit codes. It waits for the broker, so 4 is not one
	// of them.
	codes []int
}

var (
	always  = []int{cli.ExitDone}
	partial = []int{cli.ExitDone, cli.ExitPartial}
	// whileFlowing is how an audit may end while orders flow.
	whileFlowing = always
)

// commands lists the commands that only read or that may be repeated. importAll runs imports, backUpAll backups;
// hold, limit and cancel are faults.
func commands() []command {
	words := func(text string) func(*rig) []string {
		return func(*rig) []string { return strings.Fields(text) }
	}
	batch := func(text string) func(*rig) []string {
		return func(r *rig) []string {
			name, _ := r.batch.Load().(string)
			if name == "" {
				return nil
			}
			return strings.Fields(strings.ReplaceAll(text, "BATCH", name))
		}
	}
	return []command{
		{"enqueue", batch("watch BATCH"), partial},
		{"enqueue", words("status"), always},
		{"enqueue", batch("status BATCH --json"), partial},
		{"enqueue", batch("order BATCH-00000"), partial},
		{"deadletter", batch("show BATCH-00001 --json"), partial},
		{"deadletter", words("list --json"), partial},
		{"deadletter", words("export"), partial},
		{"deadletter", words("audit"), whileFlowing},
		{"deadletter", words("drop --outcome invalid --yes --by chaos"), partial},
		{"deadletter", words("resolve nobody --rejected --by chaos --note chaos"), []int{cli.ExitPartial}},
		{"deadletter", func(r *rig) []string { return r.replayArgs() }, partial},
		{"deadletter", func(r *rig) []string {
			if !r.o.lookup { // each order would be unknown again, and be looked up again
				return nil
			}
			return strings.Fields("lookup --all --by chaos")
		}, partial},
		{"worker", words("fleet --json"), always},
		{"orderpost", batch("erase BATCH-00002 --yes --by chaos"), partial},
	}
}

const (
	// commandEvery is the pause between two runs of one command.
	commandEvery = 2 * time.Second
	// commandTime is the timeout of one run, behind the time that has faults. They heal within seconds, so a slower
	// command hangs. An import waits for all orders published before it, and an order in doubt for a worker that lives
	// as long as its quarantine (R3).
	commandTime = 15 * time.Minute
	// importRows is the size of one import.
	importRows = 60
)

// commandTally is one line of the table of commands.
type commandTally struct {
	Command string      `json:"command"`
	Runs    int         `json:"runs"`
	Codes   map[int]int `json:"codes"`
	// Waited counts runs that printed that they wait for the broker.
	Waited int `json:"waited"`
	// Unexpected counts runs that ended with a wrong exit code, or hung.
	Unexpected int `json:"unexpected,omitempty"`
}

// commandRuns counts runs by their program and first word.
type commandRuns struct {
	mu       sync.Mutex
	lines    []*commandTally
	problems []string
}

// note counts one run. code -1 means that it did not end by itself.
func (c *commandRuns) note(name string, args []string, codes []int, code int, out string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := name + " import"
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		what = name + " " + args[0]
	}
	i := slices.IndexFunc(c.lines, func(t *commandTally) bool { return t.Command == what })
	if i < 0 {
		i = len(c.lines)
		c.lines = append(c.lines, &commandTally{Command: what, Codes: make(map[int]int)})
	}
	t := c.lines[i]
	t.Runs++
	t.Codes[code]++
	if strings.Contains(out, "waiting for the broker") {
		t.Waited++
	}
	if !slices.Contains(codes, code) && !refusedForRoom(code, out) {
		t.Unexpected++
		c.problems = append(c.problems, fmt.Sprintf("%s %s: exit code %d, of %v: %s", name, strings.Join(args, " "), code, codes, lastPart(out)))
	}
}

// lastPart returns the end of an output, where a program says why it failed.
func lastPart(out string) string {
	out = strings.TrimSpace(out)
	return out[max(0, len(out)-400):]
}

// command runs a program that waits for the broker, and notes how it ended.
func (r *rig) command(ctx context.Context, codes []int, name string, args ...string) (code int) {
	return r.commandWith(ctx, nil, codes, name, args...)
}

// commandWith is command with other settings.
func (r *rig) commandWith(ctx context.Context, settings []string, codes []int, name string, args ...string) (code int) {
	limit, cancel := context.WithTimeout(ctx, r.o.length()+commandTime)
	defer cancel()
	cmd, err := r.tool(limit, name, args...)
	if err != nil {
		return -1
	}
	cmd.Env = append(cmd.Env, "ORDERPOST_NATS_CONNECT_TIMEOUT=1m", "ORDERPOST_BROKER_WAIT=2m")
	if finds := len(args) > 0 && (args[0] == "watch" || strings.Contains(args[0], "/")); finds && r.nodes == nil {
		cmd.Env = append(cmd.Env, "ORDERPOST_NATS_URL=", "ORDERPOST_DATA_DIR="+r.dataDir()) // the broker may have moved
	}
	cmd.Env = append(cmd.Env, settings...)
	rotten := r.rotten.Load()
	code, out, err := exitOf(cmd)
	if ctx.Err() != nil {
		return -1
	}
	if slices.Contains(args, "audit") && (rotten || r.rotten.Load()) {
		codes = partial // it names what the damaged server lacks
	}
	if err != nil {
		code = -1
		out += err.Error()
	}
	r.runs.note(name, args, codes, code, out)
	return code
}

// commandAll runs every command until enough ends, and returns when the last run
// has ended.
func (r *rig) commandAll(ctx context.Context, enough <-chan struct{}) error {
	var all sync.WaitGroup
	for i, c := range commands() {
		all.Go(func() {
			rest := time.Duration(i) * commandEvery / time.Duration(len(commands())) // spread the starts
			for pauseUntil(ctx, enough, rest) {
				if args := c.args(r); args != nil {
					r.command(ctx, c.codes, c.program, args...)
				}
				rest = commandEvery
			}
		})
	}
	var err, backupErr error
	all.Go(func() { err = r.importAll(ctx, enough) })
	all.Go(func() { backupErr = r.backUpAll(ctx, enough) })
	all.Wait()
	return errors.Join(err, backupErr, context.Cause(ctx))
}

// importAll imports one file after another, and waits for the outcomes of each.
func (r *rig) importAll(ctx context.Context, enough <-chan struct{}) error {
	for i := 0; pauseUntil(ctx, enough, commandEvery/4); i++ {
		batch := fmt.Sprintf("W%d-%04d", r.o.seed, i)
		path, orderNos, err := r.file(batch, importRows)
		if err != nil {
			return err
		}
		for _, no := range orderNos {
			r.intents.attempt(no)
		}
		r.batch.Store(batch)
		results := path + ".results" + filepath.Ext(path)
		for {
			code := r.command(ctx, partial, "enqueue", path, "--batch", batch, "--wait", "--results", results)
			if _, err := os.Stat(results); err == nil && slices.Contains(partial, code) {
				r.intents.confirm(order.OutcomeNone, orderNos...) // every row has its outcome
				break
			}
			// The import stopped at a full stream and said so: run it again.
			if err := pause(ctx, commandEvery/4); err != nil {
				return fmt.Errorf("%w: the import %s is not done", err, batch)
			}
		}
	}
	return nil
}

// pauseUntil waits and reports whether to go on.
func pauseUntil(ctx context.Context, enough <-chan struct{}, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-enough:
		return false
	case <-time.After(d):
		return true
	}
}

// refusedForRoom reports whether the program failed because the broker's disk is full,
// and said so.
func refusedForRoom(code int, out string) bool {
	return code == cli.ExitFailed && (strings.Contains(out, "the broker cannot store results") || strings.Contains(out, "the broker has no room") ||
		strings.Contains(out, "the journal cannot be written") && strings.Contains(out, settle.ErrFull.Error()))
}
