package simulation

import (
	"math"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// world is one schedule: a broker, an API, workers, producers and persons.
type world struct {
	e        *engine
	cfg      plan
	mutation Mutation
	protocol settle.Config
	broker   *broker
	api      *api
	witness  *witness
	hosts    []*host
	workers  []*worker
	feeders  []*feeder
	fed      []int // processes of each feeder
	started  []int // processes of each worker
	machines []clock
	jumped   time.Duration // of all clocks together, in either direction
	orders   []string
	refused  map[string]bool
	toxic    map[string]bool
	idle     []idler
	claims   int
	faults   int
	busy     int // running producers and persons
	quiet    bool
}

type idler struct {
	p *proc
	n uint64
}

// Counts counts events.
type Counts struct {
	oracle.Counts
	Faults int
}

// Result is the result of a schedule.
type Result struct {
	Schedule Schedule
	Findings []oracle.Finding
	Counts   Counts
	// Simulated is the simulated time of the schedule.
	Simulated time.Duration
	// Reached are the faults that struck, and where.
	Reached Strikes
}

// patience bounds the quiet time in which all orders must settle, besides what the
// clocks jumped: an attempt's note is respected until the time that its writer's clock
// gave it. maxSteps bounds the events of a schedule.
const (
	patience = 2 * time.Hour
	maxSteps = 300_000
)

// Run runs the schedule of a seed. trace may be nil.
func Run(seed uint64, m Mutation, trace *Trace) Result {
	return Play(Schedule{Seed: seed}, m, trace)
}

// Play runs a schedule. trace may be nil.
func Play(s Schedule, m Mutation, trace *Trace) Result { return playOnce(&s, m, trace, nil) }

func playOnce(s *Schedule, m Mutation, trace *Trace, kept *[]Edit) Result {
	var cs coroutines
	defer cs.end()
	return play(s, m, trace, kept, nil, &cs)
}

// play is Play. kept collects what may be dropped, and keep gets each event of the
// history. Both may be nil.
func play(s *Schedule, m Mutation, trace *Trace, kept *[]Edit, keep func(oracle.Event), cs *coroutines) Result {
	w := &world{e: newEngine(s, trace), mutation: m, refused: make(map[string]bool), toxic: make(map[string]bool)}
	w.e.kept, w.e.coroutines = kept, cs
	w.cfg = drawPlan(w.e)
	if !m.inAll() {
		w.narrow()
	}
	w.broker, w.api = newBroker(w), newAPI(w)
	if w.cfg.Replicas > 1 {
		w.broker.followers = &followers{}
	}
	w.witness = newWitness(w, keep)
	if waits(s, m) {
		w.cfg.openWaitingRoom(w.e)
	}
	w.protocol = settle.Config{IntentSubjects: subjectPrefix, AttemptTimeout: w.cfg.RequestTimeout, LongestDelay: w.cfg.DelayMax, ProveAtOnce: 2, SweepAfter: 8*w.cfg.AckWait + 4*w.cfg.RequestTimeout, Log: zerolog.Nop()}
	if w.drops(Sweep) {
		w.protocol.SweepAfter = 1
	}
	if w.drops(Delays) {
		w.protocol.LongestDelay = math.MaxInt64 / 2
	}
	trace.say(w.e, "world", "settings", "", "%+v", w.cfg)
	w.populate()
	w.trouble()
	w.e.after(w.cfg.Trouble, w.calm)
	for w.e.steps < maxSteps && w.e.at < w.cfg.Trouble+patience+w.jumped && !w.atRest() && w.e.step() {
	}
	w.witness.tell(oracle.Event{Kind: oracle.End})
	counts := w.witness.counts()
	w.end()
	return Result{Schedule: *s, Findings: w.witness.oracle.Findings, Counts: counts, Simulated: w.e.at, Reached: w.e.reached}
}

// atRest reports whether the trouble is over, the queue is empty and all programs have
// ended.
func (w *world) atRest() bool {
	if !w.quiet || w.busy > 0 || len(w.broker.intents) > 0 || len(w.broker.waiting.intents) > 0 {
		return false
	}
	for _, k := range w.workers {
		if k.dead || k.inHand > 0 || k.frozen > w.e.at {
			return false
		}
	}
	for _, f := range w.feeders {
		if f.dead || f.frozen > w.e.at { // a frozen feeder acts when it wakes
			return false
		}
	}
	return true
}

// end ends every coroutine.
func (w *world) end() {
	for _, h := range w.hosts {
		h.dead = true
		for _, p := range append([]*proc(nil), h.procs...) {
			p.kill()
		}
	}
}

// calm ends the trouble. Running work ends by itself.
func (w *world) calm() {
	w.e.trace.say(w.e, "world", "quiet from here on", "", "")
	w.quiet = true
	w.broker.makeRoom()
	for _, h := range w.hosts {
		h.faulty, h.crashIn, h.freezeIn = false, 0, 0
	}
}

// populate creates orders, producers, workers and persons.
func (w *world) populate() {
	r, toxic := w.e.rng, 0.06
	if w.e.schedule.Corrections {
		toxic = 0.01 // a toxic order ends soon
	}
	for i := range w.cfg.Orders {
		no := "o" + strconv.Itoa(i)
		w.orders = append(w.orders, no)
		id := streamOf(ofOrder, i, 0, 0)
		if w.e.schedule.dropped(id, 0) {
			continue
		}
		w.e.in(id, func() {
			w.refused[no] = r.Float64() < 0.15
			w.toxic[no] = r.Float64() < toxic
			if w.api.foreign[no] = r.Float64() < 0.04; w.api.foreign[no] {
				w.witness.about(oracle.Foreign, no)
			}
			if w.cfg.Corrections > 0 {
				w.correct(no)
			} else {
				w.produce(no)
			}
		})
	}
	w.workers, w.started, w.machines = make([]*worker, w.cfg.Workers), make([]int, w.cfg.Workers), make([]clock, w.cfg.Workers)
	for i := range w.workers {
		w.workers[i] = w.startWorker(i)
	}
	w.feeders, w.fed = make([]*feeder, w.cfg.Feeders), make([]int, w.cfg.Feeders)
	for i := range w.feeders {
		w.feeders[i] = w.startFeeder(i)
	}
	for i := range w.cfg.Persons + w.cfg.Pages { // the last ones act on a page
		w.e.in(streamOf(ofPerson, i, 1, 0), func() { w.intervene(i) })
	}
	for i := range w.cfg.Askers {
		w.e.in(streamOf(ofPerson, asking+i, 1, 0), func() { w.ask(asking + i) })
	}
	for i := range w.cfg.Attentive {
		w.e.in(streamOf(ofPerson, attentive+i, 1, 0), func() { w.attend(attentive + i) })
	}
}

// awaitWork skips the pulls of an idle worker that would return nothing.
func (w *world) awaitWork(k *worker) {
	for !w.broker.ready() && (w.broker.unsettled() == 0 || w.e.chance(0.7)) && !k.stopping {
		p := w.e.running
		p.wait = w.e.newWait()
		w.idle = append(w.idle, idler{p, p.wait})
		p.suspend()
	}
}

// wakeIdle wakes idle workers because there is a message to deliver.
func (w *world) wakeIdle() {
	for _, i := range w.idle {
		w.e.after(w.latency(), func() { w.e.wake(i.p, i.n) })
	}
	w.idle = w.idle[:0]
}

// busiest returns the furthest step at which any worker is.
func (w *world) busiest() (most Step) {
	for _, k := range w.workers {
		if !k.dead {
			most = max(most, k.step())
		}
	}
	return most
}

// troubleConsumer is the number of a kind of fault that came later. Those before it are
// numbered in their order, in which the feeders' come last.
const troubleConsumer = 100

// troubleStamps numbers the stream of how stamping clocks go.
const troubleStamps = 101

// troubleBrokerClocks numbers the streams of how the broker's clocks are set.
const troubleBrokerClocks = 102

// troubleFloor numbers the streams of edits of the workers' consumer.
const troubleFloor = 103

// trouble schedules what goes wrong. Each fault has a stream of its own.
func (w *world) trouble() {
	c, e := &w.cfg, w.e
	numbered := func(kind, n int, what func()) {
		for i := range n {
			e.in(streamOf(ofTrouble, kind, i, 0), func() {
				e.after(e.between(0, c.Trouble), func() {
					if !w.quiet && (e.schedule.Old || e.happens()) {
						what()
					}
				})
			})
		}
	}
	kinds := 0
	at := func(n int, what func()) {
		kinds++
		numbered(kinds, n, what)
	}
	victim := func() *worker { return w.workers[e.rng.IntN(len(w.workers))] }
	long := func() time.Duration { return e.between(0, c.AckWait+c.AckWait/2) }
	at(c.Crashes, func() { victim().crash("killed") })
	at(c.Freezes, func() { victim().freeze(long()) })
	at(c.Cuts, func() { victim().disconnect(e.between(100*time.Millisecond, c.AckWait)) })
	at(c.Partitions, func() {
		victim().partition(e.between(0, min(15*time.Second, c.AckWait)), e.between(100*time.Millisecond, c.AckWait))
	})
	at(c.SleptThrough, func() { // the broker is killed while a worker does not notice
		k, d := victim(), e.between(c.AckWait/4, c.AckWait)
		if e.chance(0.5) {
			k.freeze(d)
		} else {
			k.partition(min(d, 15*time.Second), time.Second)
		}
		e.after(e.between(0, d/4), func() { w.broker.kill(e.between(100*time.Millisecond, time.Second), memory(e.rng.IntN(3))) })
	})
	at(c.Drains, func() { victim().drain(e.between(0, 5*time.Second)) })
	at(c.StepCrashes, func() { victim().crashIn = 1 + e.rng.IntN(12) })
	at(c.StepFreezes, func() {
		k := victim()
		k.freezeIn, k.freezeFor = 1+e.rng.IntN(12), long()
	})
	at(c.BrokerKills, func() { w.broker.kill(e.between(100*time.Millisecond, 5*time.Second), memory(e.rng.IntN(3))) })
	at(c.Stalls, func() { w.broker.stall(e.rng.IntN(followerCount), e.between(0, 2*c.AckWait)) })
	at(c.FullDisks, func() {
		w.broker.fill()
		w.faults++
		e.reached.strike(FaultDiskFull, w.busiest())
		e.trace.say(e, "broker", "storage is full", "", "")
		e.after(e.between(time.Second, 10*time.Second), func() {
			w.broker.makeRoom()
			e.trace.say(e, "broker", "storage has room", "", "")
		})
	})
	at(c.ClockJumps, func() {
		k := victim()
		if e.chance(0.4) {
			k.freeze(long())
		}
		k.jump(w.drawJump())
	})
	at(c.Suspends, func() { victim().suspend(long()) })
	at(c.LeaderChanges, func() { w.broker.changeLeader(e.rng.IntN(int(allStreams)+1), w.drawChange()) })
	at(c.BatchChanges, func() { // in the middle of a batch of writes
		w.broker.changeAfter = 1 + e.rng.IntN(12)
	})
	if c.Feeders > 0 {
		w.troubleFeeders(at)
	}
	if c.BrokerClocks > 0 {
		e.in(streamOf(ofTrouble, troubleBrokerClocks, 0xff, 1), w.drawBrokerClocks)
	}
	numbered(troubleBrokerClocks, c.BrokerClocks, func() {
		servers := 1
		if w.broker.followers != nil {
			servers = len(w.broker.ahead)
		}
		w.broker.setClock(e.rng.IntN(servers), w.drawStep())
	})
	numbered(troubleFloor, c.FloorMoves, func() { w.broker.moveFloor(e.between(100*time.Millisecond, 5*time.Second)) })
	numbered(troubleConsumer, c.ConsumerChanges, func() { w.broker.changeConsumer(w.drawChange()) })
}
