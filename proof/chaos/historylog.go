package chaos

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

// logged is a line of a worker's log.
type logged struct {
	Message   string        `json:"message"`
	Time      time.Time     `json:"time"`
	AtNS      int64         `json:"at_ns"`
	OrderNo   string        `json:"order_no"`
	IntentID  string        `json:"intent_id"`
	Sequence  uint64        `json:"sequence"`
	Delivered uint64        `json:"delivered"`
	Delivery  string        `json:"delivery"`
	Timestamp int64         `json:"timestamp"`
	Verdict   order.Verdict `json:"verdict"`
}

// readLog writes what a worker logged. Lines of runs of the program follow each other.
func (h *history) readLog(p *process) error {
	return p.eachLine(func(l *logged) {
		if e, tells := h.fromLog(l); tells {
			e.Process = p.runAt(l.when())
			h.tell(e)
		}
	})
}

// eachLine passes each line of the process's log to visit.
func (p *process) eachLine(visit func(*logged)) error {
	f, err := os.Open(p.log)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), 16<<20)
	for lines.Scan() {
		var l logged
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // a killed worker leaves half a line, and a panic is no JSON
		}
		visit(&l)
	}
	return lines.Err()
}

func (l *logged) when() time.Time {
	if l.AtNS != 0 {
		return time.Unix(0, l.AtNS)
	}
	return l.Time
}

// fromLog returns the event that a line tells of.
func (h *history) fromLog(l *logged) (e oracle.Event, tells bool) {
	e = oracle.Event{At: h.moment(l.when()), OrderNo: l.OrderNo}
	switch l.Message {
	case "intent delivered":
		e.Kind, e.Intent, e.Seq, e.Count, e.Reply = oracle.Delivered, l.IntentID, l.Sequence, l.Delivered, l.Delivery
	case "order posted":
		e.Kind, e.Stamp = oracle.Posted, l.Timestamp
	case "attempt":
		e.Kind, e.Stamp, e.Verdict = oracle.Answered, l.Timestamp, l.Verdict
	case "broker connection is back":
		e.Kind = oracle.Reconnected
	case "embedded broker is running":
		e.Kind = oracle.BrokerBack
	default:
		return e, false
	}
	return e, true
}

// lifetime is one run of a process.
type lifetime struct {
	name string
	from time.Time
}

// runAt returns the run of the process at a time.
func (p *process) runAt(at time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := ""
	for _, r := range p.runs {
		if name == "" || !r.from.After(at) {
			name = r.name
		}
	}
	return name
}

// began notes a new run. The caller holds mu.
func (p *process) began() (name string) {
	name = p.name + "." + strconv.Itoa(len(p.runs)+1)
	p.runs = append(p.runs, lifetime{name, time.Now()})
	p.history.now(oracle.Event{Kind: oracle.Started, Process: name, Why: p.name})
	if p.broker {
		p.history.now(oracle.Event{Kind: oracle.BrokerBack, Process: name})
	}
	return name
}

// frozen notes that a process was frozen until now.
func (h *history) frozen(name string, from time.Time) {
	if h != nil {
		h.tell(oracle.Event{Kind: oracle.Frozen, Process: name, At: h.moment(from), Until: h.moment(time.Now())})
	}
}

// over notes the end of a run.
func (p *process) over(name string) {
	p.history.now(oracle.Event{Kind: oracle.Ended, Process: name})
	if p.broker {
		p.history.now(oracle.Event{Kind: oracle.BrokerKilled, Process: name})
	}
}
