package watch

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/smalldisk"
)

// scenario is a folder with one file, and what becomes of it.
type scenario struct {
	name string
	// drop makes the folder. %d in its orders is a number that no other folder has.
	drop func(t *testing.T, dir string, n int)
	// rows is how many orders go to the API, of each number. want are the files in the end.
	rows int
	want []string
	// holds maps files in the end to what they hold; %d is the number.
	holds map[string]string
}

const plain = "order_no,timeout\nS%[2]s-%[1]d-1,30\nS%[2]s-%[1]d-2,30\n"

func scenarios(t *testing.T) []scenario {
	all := []scenario{{
		name: "stored", rows: 2,
		drop: func(t *testing.T, dir string, n int) {
			put(t, filepath.Join(dir, "orders.csv"), fmt.Sprintf(plain, n, "a"))
		},
		want:  []string{"done/orders.csv", "done/orders.csv.results.csv"},
		holds: map[string]string{"done/orders.csv": fmt.Sprintf(plain, 0, "a")},
	}, {
		name: "stored, bad rows left out, the name is taken, a marker", rows: 1,
		drop: func(t *testing.T, dir string, n int) {
			folders(t, filepath.Join(dir, "done"))
			put(t, filepath.Join(dir, "done", "orders.csv"), "somebody's")
			put(t, filepath.Join(dir, FlagsFile), "--skip-invalid\n--marker .ok\n")
			put(t, filepath.Join(dir, "orders.csv"), fmt.Sprintf("order_no,timeout\nSb-%d-1,30\nSb-%[1]d-2,soon\n", n))
			put(t, filepath.Join(dir, "orders.csv.ok"), "")
		},
		want: []string{"done/orders.csv", "done/orders.2.csv", "done/orders.2.csv.rejects.csv", "done/orders.2.csv.results.csv", FlagsFile},
		holds: map[string]string{"done/orders.csv": "somebody's", "done/orders.2.csv": "order_no,timeout\nSb-0-1,30\nSb-0-2,soon\n",
			"done/orders.2.csv.rejects.csv": "order_no,timeout,_row,_column,_code,_message\nSb-0-2,soon,3,2,wrong_type,\"column timeout: \"\"soon\"\" is not a whole number such as 30\"\n"},
	}, {
		name: "refused",
		drop: func(t *testing.T, dir string, n int) {
			put(t, filepath.Join(dir, "orders.csv"), fmt.Sprintf("order_no,timeout\nSc-%d-1,30\nSc-%[1]d-2,soon\n", n))
		},
		want:  []string{"refused/orders.csv", "refused/orders.csv.rejects.csv", "refused/orders.csv.why.txt"},
		holds: map[string]string{"refused/orders.csv": "order_no,timeout\nSc-0-1,30\nSc-0-2,soon\n"},
	}, {
		name: "a link",
		drop: func(t *testing.T, dir string, _ int) {
			require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "l.csv")))
		},
		want:  []string{"refused/l.csv", "refused/l.csv.why.txt"},
		holds: map[string]string{"refused/l.csv.why.txt": "it is a link, and links are not followed: put the file itself into the folder\n"},
	}}
	far := all[0]
	far.name = "stored on another file system"
	far.holds = map[string]string{"done/orders.csv": fmt.Sprintf(plain, 0, "e")}
	far.drop = func(t *testing.T, dir string, n int) {
		folders(t, filepath.Join(dir, "done"))
		disk, err := smalldisk.Mount(filepath.Join(dir, "done"), 1<<20)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, disk.Unmount()) })
		put(t, filepath.Join(dir, "orders.csv"), fmt.Sprintf(plain, n, "e"))
	}
	probe := t.TempDir()
	disk, err := smalldisk.Mount(probe, 1<<20)
	switch {
	case err == nil:
		require.NoError(t, disk.Unmount())
		all[0] = far // which takes the steps of the first one, too
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported):
		t.Log("NOT TRIED: done/ on another file system, which needs the right to mount")
	default:
		require.NoError(t, err)
	}
	return all
}

// TestKilledAtEveryStep kills a process before each step that it takes in a folder, until there
// is none left, and lets another one go on: every file ends as it would have, and every order
// is created once. The steps are those that the code tells; TestStepsAreTold says that it
// tells all.
func TestKilledAtEveryStep(t *testing.T) {
	s := newSite(t)
	orders := make(map[string]int)
	var mu sync.Mutex
	for _, sc := range scenarios(t) {
		t.Run(sc.name, func(t *testing.T) {
			var next, ended atomic.Int64
			var steps []string
			var runs sync.WaitGroup
			for range 4 {
				runs.Go(func() {
					for ended.Load() == 0 {
						n := int(next.Add(1))
						step, killed := sc.run(t, s, n)
						if !killed {
							ended.Add(1)
						}
						mu.Lock()
						steps = append(steps, step)
						if !t.Failed() {
							for _, no := range numbersIn(sc, n) {
								orders[no] = 1
							}
						}
						mu.Unlock()
					}
				})
			}
			runs.Wait()
			require.Greater(t, len(steps), 25, "steps: %q", steps)
			for _, step := range []string{"before import", "rows 2"} {
				require.Equal(t, sc.name != "a link" && (step == "before import" || sc.rows > 0), slices.Contains(steps, step), step)
			}
			t.Logf("killed before %d steps", len(steps))
		})
	}
	require.Equal(t, orders, s.created(t))
	require.Equal(t, len(orders), s.intents(t), "no order was enqueued twice")
}

// numbersIn lists the orders of a scenario that go to the API.
func numbersIn(sc scenario, n int) (out []string) {
	for _, text := range sc.holds {
		for line := range strings.Lines(text) {
			if no, _, sent := strings.Cut(line, ",30\n"); sent && sc.rows > 0 {
				out = append(out, strings.Replace(no, "-0-", fmt.Sprintf("-%d-", n), 1))
			}
		}
	}
	return out
}

// run makes a folder, has a process work on it that dies before its step n, and lets another
// one go on. step is where it died; killed is false if it did not come to that step.
func (sc *scenario) run(t *testing.T, s *site, n int) (step string, killed bool) {
	dir := t.TempDir()
	sc.drop(t, dir, n)
	want := slices.Sorted(slices.Values(sc.want))
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{childDir + "=" + dir, childStep + "=" + strconv.Itoa(n), "TMPDIR=" + t.TempDir(), "USER=anna", "ORDERPOST_DATA_DIR=" + s.settings["ORDERPOST_DATA_DIR"]}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if !assert.NoError(t, cmd.Start()) {
		return "", false
	}
	died := make(chan struct{})
	go func() { _ = cmd.Wait(); close(died) }()
	over := time.After(patience)
	for waiting := true; waiting; {
		select {
		case <-died:
			waiting = false
		case <-over:
			t.Errorf("step %d: the child neither died nor finished: %q\n%s", n, files(t, dir), &errOut)
			waiting = false
		case <-time.After(5 * time.Millisecond):
			waiting = !slices.Equal(files(t, dir), want)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-died
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	if !killed {
		assert.Zero(t, cmd.ProcessState.ExitCode(), "SIGTERM ends it cleanly: %s", &errOut)
	}
	step = out.String()

	said, stop := s.watch(t, dir, brisk)
	var have []string
	ok := assert.Eventually(t, func() bool { have = files(t, dir); return slices.Equal(have, want) }, patience, 5*time.Millisecond)
	saw(t, said, `"watching"`)
	assert.Zero(t, stop())
	assert.True(t, ok, "killed before step %d, %s\nwant %q\nhave %q\n%s\n%s", n, step, want, have, &errOut, said)
	for name, text := range sc.holds {
		data, err := os.ReadFile(filepath.Join(dir, name))
		assert.NoError(t, err)
		assert.Equal(t, strings.ReplaceAll(text, "-0-", fmt.Sprintf("-%d-", n)), string(data), "%s, killed before step %d, %s", name, n, step)
	}
	return step, killed
}

// TestStepsAreTold: what changes something on a disk stands in disk.go of package folder, whose
// every change is a step.
func TestStepsAreTold(t *testing.T) {
	changes := []string{"Mkdir", "MkdirAll", "MkdirTemp", "Create", "CreateTemp", "OpenFile", "WriteFile", "Rename", "Remove", "RemoveAll", "Link", "Symlink", "Chmod", "Chown", "Chtimes",
		"Truncate", "Write", "WriteString", "WriteAt"}
	// What only reads, or is told by its own name.
	allowed := map[string]int{"folder.go OpenFile": 1}
	seen := make(map[string]int)
	told := 0
	for _, dir := range []string{".", "../../files/folder"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if to, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(changes, to.Sel.Name) {
						if filepath.Base(path) == "disk.go" {
							told++
						} else {
							seen[filepath.Base(path)+" "+to.Sel.Name]++
						}
					}
				}
				return true
			})
		}
	}
	require.Equal(t, allowed, seen, "take it to disk.go, where a test can kill before and after it")
	require.Greater(t, told, 5)
}
