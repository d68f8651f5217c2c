package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/proof/overlay"
)

// clockVar names the file that says by how many seconds the wall clock of a process is wrong.
const clockVar = "CHAOS_CLOCK" // ORDERPOST_ begins the names of settings

// clockPatch changes package time: Now adds the seconds that the file of clockVar holds at that
// moment. The monotonic clock stays right, and with it timers, Since and Sub. A library that is
// loaded before others, as libfaketime, does not reach Go programs.
const (
	clockAnchor = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	clockPatch  = clockAnchor + "\tsec += shifted()\n"
	clockSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var wallShift = new(int64)

func shifted() int64 { return atomic.LoadInt64(wallShift) }

func init() {
	path, found := syscall.Getenv("` + clockVar + `")
	if !found {
		return
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("` + clockVar + `: cannot open " + path + ": " + err.Error())
	}
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("` + clockVar + `: cannot map " + path + ": " + err.Error())
	}
	_ = syscall.Close(fd)
	wallShift = (*int64)(unsafe.Pointer(&page[0]))
}
`
)

// clocks patches the local Go's package time.
func clocks(ctx context.Context, o overlay.Files) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	o[filepath.Join(std, "chaos_shift.go")] = clockSource
	return o.Patch(filepath.Join(std, "time.go"), clockAnchor, clockPatch)
}

// wallClock is the wall clock of a process. A process that is started again keeps it.
type wallClock struct {
	mu    sync.Mutex
	path  string
	ahead time.Duration
}

// newClock returns a clock that is right.
func newClock(path string) (*wallClock, error) { c := &wallClock{path: path}; return c, c.step(0) }

// step puts the clock forward, or back. It counts whole seconds.
func (c *wallClock) step(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_WRONLY, 0o600) // the file is mapped, and must never be shorter
	if err != nil {
		return err
	}
	c.ahead += by
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.ahead/time.Second)), 0) //nolint:gosec // two's complement is what the process reads
	return errors.Join(err, f.Close())
}

// giveClock gives a process a clock of its own, with --clocks.
func (r *rig) giveClock(p *process) (err error) {
	if !r.o.clocks {
		return nil
	}
	if p.clock, err = newClock(filepath.Join(r.dir, p.name+".clock")); err != nil {
		return err
	}
	if p.env == nil {
		p.env = os.Environ()
	}
	p.env = append(p.env, clockVar+"="+p.clock.path)
	return nil
}

// clockFaults make wall clocks wrong, and right again.
func clockFaults() (all []fault) {
	for _, who := range []struct {
		name, what string
		among      func(*rig) []*process
	}{
		{"clock-broker", "a broker (one of the three nodes; the first worker, if it runs the broker)", (*rig).brokers},
		{"clock-worker", "a worker without a broker", func(r *rig) []*process {
			return slices.DeleteFunc(r.workerLogs(), func(p *process) bool { return p.broker })
		}},
	} {
		for _, step := range []struct {
			name, text string
			by         time.Duration
		}{{"5s", "5 seconds", 5 * time.Second}, {"1h", "an hour", time.Hour}, {"40d", "40 days", 40 * 24 * time.Hour}} {
			all = append(all, fault{name: who.name + "-" + step.name, what: "the clock of " + who.what + " steps by " + step.text + ", ahead or back", weight: 2, part: clocksPart,
				least: time.Second, most: 9 * time.Second, inject: stepClock(who.among, step.by)})
		}
	}
	return append(all, fault{name: "clock-skew", what: "the clocks of the three nodes differ by 5 to 60 s, and the leaders of streams and consumer move from the latest to the earliest and on", weight: 4,
		part: clocksPart, needs: []string{clusterBroker}, least: 3 * time.Second, most: 9 * time.Second, inject: skewNodes})
}

// brokers returns the processes that run a broker.
func (r *rig) brokers() []*process {
	return slices.DeleteFunc(r.processes(), func(p *process) bool { return !p.broker })
}

func stepClock(among func(*rig) []*process, by time.Duration) func(context.Context, *rig, *rand.Rand) (heal, error) {
	return func(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
		all := among(r)
		if len(all) == 0 {
			return nil, errNoWay
		}
		p, by := all[draw.IntN(len(all))], by
		if draw.IntN(2) == 0 {
			by = -by
		}
		return func(context.Context) error { return r.step(p, -by) }, r.step(p, by)
	}
}

func (r *rig) step(p *process, by time.Duration) error {
	err := p.clock.step(by)
	r.say("the clock of %s steps by %s", p.name, by)
	return err
}

// skewNodes sets the clocks of the nodes apart, and moves the leaders from the latest clock to the
// next earlier one, and so on, then to the latest again.
func skewNodes(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	by := time.Duration(5+draw.IntN(56)) * time.Second
	nodes := slices.Clone(r.nodes)
	draw.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	latest, earliest := nodes[0], nodes[len(nodes)-1]
	ctx, stop := context.WithCancel(ctx)
	var moving sync.WaitGroup
	moving.Go(func() {
		for i := 0; pause(ctx, time.Second) == nil; i++ {
			to := nodes[i%len(nodes)].name
			r.say("%d leaders move to %s", r.lead(ctx, to), to)
		}
	})
	return func(context.Context) error {
		stop()
		moving.Wait()
		return errors.Join(r.step(latest, -by), r.step(earliest, by))
	}, errors.Join(r.step(latest, by), r.step(earliest, -by))
}

// lead asks the leaders of the streams and of the workers' consumer to step down in favour of a
// node, and returns how many did.
func (r *rig) lead(ctx context.Context, node string) (moved int) {
	wish := fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, node)
	for _, who := range []string{"CONSUMER.LEADER.STEPDOWN.ORDERS.workers", "STREAM.LEADER.STEPDOWN.ORDERS", "STREAM.LEADER.STEPDOWN.ORDERS_RESULTS",
		"STREAM.LEADER.STEPDOWN.ORDERS_DEAD", "STREAM.LEADER.STEPDOWN.ORDERS_WAITING", "STREAM.LEADER.STEPDOWN.KV_ORDERPOST"} {
		ask, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := r.link.RequestWithContext(ask, "$JS.API."+who, wish)
		cancel()
		if err == nil && strings.Contains(string(answer.Data), `"success":true`) {
			moved++
		}
	}
	return moved
}

// storedTimes finds the messages of a stream that were stored at an earlier time than the one before
// them: the leader's clock stepped back, or another server leads.
type storedTimes struct {
	Stream string `json:"stream"`
	// Back counts these messages, and Most is the largest step back, in nanoseconds.
	Back int           `json:"back"`
	Most time.Duration `json:"most_ns"`

	last    time.Time
	reading jetstream.ConsumeContext
}

// leastStep is below the smallest step of a clock, and above what healthy servers differ by.
const leastStep = time.Second

// note notes a message, and returns by how much its time goes back; 0 = it does not.
func (t *storedTimes) note(at time.Time) (back time.Duration) {
	if back = t.last.Sub(at); t.last.IsZero() || back < leastStep {
		back = 0
	} else {
		t.Back++
		t.Most = max(t.Most, back)
	}
	t.last = at
	return back
}

// watchTimes reads the times at which messages are stored, with --clocks, until stop is called.
func (r *rig) watchTimes(ctx context.Context, s *summary) (stop func(), err error) {
	stop = func() {
		for _, t := range s.StoredTimes {
			t.reading.Stop()
			<-t.reading.Closed()
		}
	}
	if !r.o.clocks {
		return stop, nil
	}
	for _, name := range []string{"ORDERS", "ORDERS_RESULTS"} {
		c, err := r.js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{HeadersOnly: true, MaxResetAttempts: -1})
		if err != nil {
			return stop, fmt.Errorf("stored times of %s: %w", name, err)
		}
		t := &storedTimes{Stream: name}
		if t.reading, err = c.Consume(func(m jetstream.Msg) {
			meta, err := m.Metadata()
			if err != nil {
				return // no message of a stream
			}
			if back := t.note(meta.Timestamp); back > 0 {
				r.say("%s: message %d was stored at %s, %s before the one before it", name, meta.Sequence.Stream, meta.Timestamp.UTC().Format(time.RFC3339), back)
			}
		}); err != nil {
			return stop, fmt.Errorf("stored times of %s: %w", name, err)
		}
		s.StoredTimes = append(s.StoredTimes, t)
	}
	return stop, nil
}

// clocksShown returns an error if clocks of brokers were set and no stored time went back.
func (s *summary) clocksShown() error {
	struck := slices.ContainsFunc(s.Faults, func(f *faultTally) bool {
		return f.Injected > 0 && (strings.HasPrefix(f.Fault, "clock-broker") || f.Fault == "clock-skew")
	})
	if struck && !slices.ContainsFunc(s.StoredTimes, func(t *storedTimes) bool { return t.Back > 0 }) {
		return errors.New("the clocks of brokers were set, and no stored time went back: this run shows nothing of clocks")
	}
	return nil
}
