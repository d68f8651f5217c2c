package oracle

import (
	"maps"
	"slices"
	"time"

	"orderpost/internal/order"
)

// Oracle judges the events of one history, in the order of their times. It sees only
// messages, records, requests and the API's orders, never a worker's state.
type Oracle struct {
	Findings []Finding
	Counts   Counts
	// OnFinding is called for each finding. It may be nil.
	OnFinding func(Finding)

	settings  Settings
	now       Moment
	line      int
	orders    map[string]*course
	claims    map[int]*claim
	attempts  map[int]*attempt
	processes map[string]*process
	pending   map[uint64]*course   // intents in the queue
	waiting   map[uint64]*place    // intents in the waiting room
	seen      map[uint64]bool      // intents that were ever stored, from outside
	handed    map[uint64]*delivery // the consumer's state of each pending intent
	killed    bool                 // the broker was killed at least once
	full      bool
	fullSince Moment
}

// Counts counts events.
type Counts struct {
	Orders, Intents, Deliveries, Posts, Records int
	Created, CreatedTwice                       int
	Pauses                                      int // POSTs after the documented pause
	LateHandBacks                               int // returns after the pause, of messages that belonged to another worker by then
	Overlaps                                    int // POSTs of former owners after the POST of a new process
	FormerOwners                                int // POSTs of owners that a change of the consumer's leader made former ones, which could not know
	LateOutcomes                                int // outcomes written after the documented pause, and then in doubt or over another one as doubt
	BothClocks                                  int // acts of former owners both of whose clocks were wrong
	SameStamps                                  int // POSTs with the timestamp of an earlier one, after a clock had jumped
	Moved                                       int // intents that came out of the waiting room into the queue
	MovedTwice                                  int // of these, after the documented pause
	Acknowledged                                int // intents that left the queue by an acknowledgement
	Unseen                                      int // records that the history lacks
	OtherBodies                                 int // acceptances of an order_no of which nobody can tell which of two bodies the API has
	Outcomes                                    [order.OutcomeUnknown + 1]int
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	c.Orders += o.Orders
	c.Intents += o.Intents
	c.Deliveries += o.Deliveries
	c.Posts += o.Posts
	c.Records += o.Records
	c.Created += o.Created
	c.CreatedTwice += o.CreatedTwice
	c.Pauses += o.Pauses
	c.LateHandBacks += o.LateHandBacks
	c.Overlaps += o.Overlaps
	c.FormerOwners += o.FormerOwners
	c.LateOutcomes += o.LateOutcomes
	c.Moved += o.Moved
	c.MovedTwice += o.MovedTwice
	c.BothClocks += o.BothClocks
	c.SameStamps += o.SameStamps
	c.Acknowledged += o.Acknowledged
	c.Unseen += o.Unseen
	c.OtherBodies += o.OtherBodies
	for i := range c.Outcomes {
		c.Outcomes[i] += o.Outcomes[i]
	}
}

// course is what happened to one order_no.
type course struct {
	orderNo string
	known   bool   // somebody published it
	must    bool   // the broker confirmed an intent
	intents int    // stored
	pending uint64 // sequence of the intent in the queue; 0 = none
	// storedAt is when that intent was stored, and named is its name.
	storedAt Moment
	named    string
	posts    []*attempt
	records  []observed
	unseen   bool // the history lacks a record
	// unsettled are findings unless a later record tells that the history lacks one.
	unsettled []unsettled
	letters   map[uint64]*letter // that are stored
	created   int
	stamps    map[int64]int // of the requests that arrived, and their lines
	foreign   bool
	// The intents by their names: how often producers submitted each, and how often
	// it was stored in the queue.
	submitted, queued map[string]int
	lost              int  // unfinished claims
	forgot            bool // an intent was stored while the broker was killed, which may have forgotten deliveries
	tookDown          int
	line              int // of the first event
	copies            []submission
	bodies            map[string]bool // that the API created
	lostBodies        map[string]bool // of deliveries that ended without their worker: each may have been posted
	marks             []mark          // what people cancelled
	neverSent         bool            // the doubt names no body: what is in doubt can never have been sent
}

// claim is one delivery.
type claim struct {
	at      Moment
	line    int
	process string // "" = only the broker believes in it
	course  *course
	count   uint64
	ended   bool
	why     string // why the claim ended, unless its worker ended it
	taken   bool   // a former owner returned the message; the owner cannot know
	waited  Moment // how long the message was stored before
	asked   bool   // its owner asked for more time
	intent  string
	body    string
}

// delivery is the last delivery of an intent.
type delivery struct {
	claim   int
	at      Moment
	process string
}

// attempt is one POST.
type attempt struct {
	line         int
	late         bool // the claim had ended
	intent       string
	seq          uint64
	process      string
	claim        int
	gate, signed Moment
	sent         Moment
	stamp        int64
	reading      int64 // of the clock that stamped it; 0 = not known
	shared       bool  // an attempt of another delivery had this timestamp, which was excused
	body         string
	done, recall bool
	doubt        bool // its refusal was called back, and a rule may be wrong
	unaware      bool // sent after the claim had ended, which its process could not know
	paused       bool // sent after the documented pause
	fresh        bool // its process had not lost its connection since its start
	verdict      order.Verdict
}

// unsure reports whether the worker does not know what the attempt did.
func (a *attempt) unsure() bool { return !a.done || a.verdict == order.Unsure || a.doubt }

// observed is one record.
type observed struct {
	at, until Moment
	line      int
	seq       uint64
	rec       *order.Record
	process   string
	claim     int    // of its writer; 0 = unknown
	delayed   Moment // when its delay is over by the true time; 0 = none
	// gone says that the intent had left the queue.
	gone bool
	// paused says that another worker had the order already. The writer was frozen
	// between its last check of the claim and the write, or it could not know because
	// a former owner returned the message in its own pause.
	paused bool
}

// process is one run of a program.
type process struct {
	heard       []heard
	frozen      Moment // until then
	reconnected bool
	refused     map[string]Moment // orders that wait until the broker stores their results, and when it refused them last
	looked      map[string]Moment // when the person saw the letters of an order last
	ended       Moment            // 0 = never
	shift       Moment            // of its wall clock
	shifts      []shifted
	setAt       Moment // when that changed last
	backAt      Moment // when it was put back last; 0 = never
	sleptUntil  Moment // when its machine was last suspended; 0 = never
}

// New returns an oracle. The first event that it observes should be Begin.
func New() *Oracle {
	return &Oracle{orders: make(map[string]*course), claims: make(map[int]*claim), attempts: make(map[int]*attempt),
		processes: make(map[string]*process), pending: make(map[uint64]*course), waiting: make(map[uint64]*place), seen: make(map[uint64]bool), handed: make(map[uint64]*delivery)}
}

// Observe judges the next event.
func (o *Oracle) Observe(e Event) {
	o.now, o.line = e.At, e.Line
	switch e.Kind {
	case Begin:
		o.settings = *e.Settings
	case Published:
		o.course(e.OrderNo).known = true
	case Stored:
		o.stored(&e)
	case Waited:
		o.waited(&e)
	case Left:
		o.left(&e)
	case Delivered:
		o.delivered(&e)
	case Released:
		o.released(e.Claim, e.Why)
	case HandedBack:
		o.handedBack(&e)
	case Marked:
		o.marked(&e)
	case Heard:
		p := o.process(e.Process)
		p.heard = append(p.heard, heard{e.Count, e.At})
	case Extended:
		if c := o.claims[e.Claim]; c != nil {
			c.asked = true
		}
	case Removed:
		o.removed(&e)
	case Emptied:
		for _, c := range o.pending {
			c.pending = 0
		}
		clear(o.pending)
	case Posted:
		o.posted(&e)
	case Arrived:
		o.arrived(&e)
	case Answered:
		if a := o.attempts[e.Attempt]; a != nil {
			a.done, a.verdict = true, e.Verdict
		}
	case CalledBack:
		if a := o.attempts[e.Attempt]; a != nil {
			a.recall, a.doubt = true, e.Doubt
		}
	case TookDown:
		o.course(e.OrderNo).tookDown++
	case Recorded:
		o.recorded(&e)
	case Filed:
		o.checkStored(&e)
	case Unfiled:
		o.checkRemoved(&e)
	case Created:
		c := o.course(e.OrderNo)
		if c.created++; c.bodies == nil {
			c.bodies = make(map[string]bool)
		}
		c.bodies[e.Body] = true
		o.checkAbsent(c, &e)
	case Foreign:
		o.course(e.OrderNo).foreign = true
	case Frozen:
		p := o.process(e.Process)
		p.frozen = max(p.frozen, e.Until)
	case Reconnected:
		o.process(e.Process).reconnected = true
	case Ended:
		if e.Why != ByItself {
			o.process(e.Process).ended = max(1, e.At)
		}
	case ClockSet, Suspended:
		o.clocks(&e)
	case Refused:
		p := o.process(e.Process)
		if p.refused == nil {
			p.refused = make(map[string]Moment)
		}
		p.refused[e.OrderNo] = e.At
	case Unrefused:
		delete(o.process(e.Process).refused, e.OrderNo)
	case Looked:
		p := o.process(e.Process)
		if p.looked == nil {
			p.looked = make(map[string]Moment)
		}
		p.looked[e.OrderNo] = e.At
	case Full:
		o.full, o.fullSince = true, e.At
	case Room:
		o.full = false
	case BrokerKilled:
		o.killed = true
		for _, c := range o.pending {
			c.forgot = true
		}
	case BrokerBack:
		clear(o.handed)
	case End:
		o.end()
	}
}

func (o *Oracle) course(no string) *course {
	c := o.orders[no]
	if c == nil {
		c = &course{orderNo: no, line: o.line}
		o.orders[no] = c
	}
	return c
}

func (o *Oracle) process(name string) *process {
	p := o.processes[name]
	if p == nil {
		p = &process{}
		o.processes[name] = p
	}
	return p
}

func (o *Oracle) stored(e *Event) {
	c := o.course(e.OrderNo)
	c.known, c.must = true, true
	if e.Seq == 0 {
		return
	}
	again := o.seen[e.Seq] // a broker that was killed brings back what it had removed, or forgot an acknowledgement
	if !again || o.settings.Outside {
		c.storedAt = e.At
	}
	c.pending, c.named = e.Seq, e.Intent
	o.pending[e.Seq] = c
	if again {
		c.forgot = c.forgot || !o.settings.Outside
		return
	}
	o.seen[e.Seq] = true
	o.Counts.Intents++
	c.intents++
	o.keep(c, e)
	o.checkMoved(c, e)
}

func (o *Oracle) delivered(e *Event) {
	c := o.course(e.OrderNo)
	if e.Process != "" {
		o.Counts.Deliveries++
	}
	o.claims[e.Claim] = &claim{at: e.At, line: e.Line, process: e.Process, course: c, count: e.Count, waited: e.At - c.storedAt}
	o.carry(c, e)
	o.handed[e.Seq] = &delivery{e.Claim, e.At, e.Process}
}

// removed takes an intent out of the queue.
func (o *Oracle) removed(e *Event) {
	c := o.pending[e.Seq]
	if c == nil {
		return
	}
	if e.Claim != 0 || e.Intent != "" {
		o.Counts.Acknowledged++
		o.checkAcknowledged(c, e)
		o.checkFiled(c, e)
	}
	delete(o.pending, e.Seq)
	delete(o.handed, e.Seq)
	if c.pending == e.Seq {
		c.pending = 0
	}
}

// handedBack ends the claim of a message that a process gave back. Another worker may
// own it by now.
func (o *Oracle) handedBack(e *Event) {
	c := o.claims[e.Former]
	by := o.claims[e.Claim]
	switch {
	case e.Former == e.Claim, c == nil, c.process == "":
		o.released(e.Former, "")
		return
	case by != nil && o.bothWrong(by.process, by.at):
		o.Counts.BothClocks++
	case by != nil && by.untold() && c.course.succeeded(e.Claim, e.Signed) == nil:
		o.Counts.LateHandBacks++
	case e.Paused, o.settings.Outside, by != nil && by.taken: // from outside nobody sees when the message left its sender
		o.Counts.LateHandBacks++
	default:
		o.find(OneClaim, c.course.orderNo, []int{c.line}, "given back by a former owner, while %s works on it", c.process)
	}
	c.taken = true
	o.released(e.Former, "a former owner gave it back")
}

func (o *Oracle) released(id int, why string) {
	if c := o.claims[id]; c != nil && !c.ended {
		c.ended, c.why = true, why
		if why != "" {
			c.course.lost++
			c.mayHavePosted()
		}
	}
}

// clock returns the time of a moment.
func (o *Oracle) clock(m Moment) time.Time { return o.settings.Start.Add(time.Duration(m)) }

// moment returns the moment of a time.
func (o *Oracle) moment(t time.Time) Moment { return Moment(t.Sub(o.settings.Start)) }

func sortedKeys[K uint64 | string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
