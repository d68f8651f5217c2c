package journal

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Kind is the kind of an act. It is a token of the entry's subject.
type Kind string

// The kinds of acts.
const (
	Import  Kind = "import"  // enqueue a file
	Cancel  Kind = "cancel"  // withdraw orders that no worker was given
	Replay  Kind = "replay"  // put dead letters back into the queue
	Lookup  Kind = "lookup"  // have the API asked about orders in doubt
	Resolve Kind = "resolve" // settle an order in doubt
	Drop    Kind = "drop"    // forget dead letters
	Erase   Kind = "erase"   // forget what was answered about orders, and their dead letters
	Export  Kind = "export"  // hand out orders: of dead letters, or the rows of a file
	Hold    Kind = "hold"    // stop the fleet
	Resume  Kind = "resume"  // let the fleet go on
	Limit   Kind = "limit"   // set the fleet's rate limit
	Pause   Kind = "pause"   // keep what waits of an import where it is
	GoOn    Kind = "go-on"   // let a paused import go on
	Lane    Kind = "lane"    // set the weight of a lane of the waiting room
	Adopt   Kind = "adopt"   // assign the orders to another API
	Repair  Kind = "repair"  // accept the loss of streams
	Remove  Kind = "remove"  // remove an uploaded file
	Tell    Kind = "tell"    // send parked webhooks again
	Approve Kind = "approve" // let an import go that needs a second person
	Refuse  Kind = "refuse"  // refuse one, and withdraw it
	Rule    Kind = "rule"    // set what needs a second person
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{Import, Cancel, Replay, Lookup, Resolve, Drop, Erase, Export, Hold, Resume, Limit, Pause, GoOn, Lane, Adopt, Repair, Remove, Tell, Approve, Refuse, Rule}
}

// About says what an act is about. Only Kind and Actor are always set.
type About struct {
	Kind  Kind  `json:"kind"`
	Actor Actor `json:"actor"`
	// OrderNo is set if the act is about one order, Batch if it is about one
	// import.
	OrderNo string `json:"order_no,omitempty"`
	Batch   string `json:"batch,omitempty"`
	// Filter selects the dead letters that the act is about, by the names of
	// the flags of deadletter list. Ages are given as times.
	Filter map[string][]string `json:"filter,omitempty"`
	// LastSeq is the sequence of the last dead letter that the act is about.
	LastSeq uint64 `json:"last_sequence,omitempty"`
	// Expected counts the orders before the act, by fate.
	Expected map[string]int `json:"expected,omitempty"`
	// Note is the person's own text.
	Note string `json:"note,omitempty"`
	// Details are the parameters of the act that are not above, such as limit.
	Details map[string]string `json:"details,omitempty"`
}

// End says how an act ended.
type End string

// The ends of an act.
const (
	Done    End = "done"
	Partial End = "partial" // done, but not for all orders
	Stopped End = "stopped" // interrupted in the middle
	Failed  End = "failed"
)

// Result is what an act did.
type Result struct {
	End End `json:"end"`
	// Counts counts the orders by what became of them.
	Counts map[string]int `json:"counts,omitempty"`
	// Error is why the act failed, or is not complete.
	Error string `json:"error,omitempty"`
	// ApprovedBy names who approved an act that needed a second person, or refused it.
	ApprovedBy []string `json:"approved_by,omitempty"`
}

// Step says which half of an act an entry is.
type Step string

// The halves of an act.
const (
	StepIntention Step = "intention"
	StepResult    Step = "result"
)

// Entry is one message of the journal. The entry of a result repeats the
// intention, so that it can be read alone.
type Entry struct {
	// ID joins an intention and its result.
	ID   string `json:"id"`
	Step Step   `json:"step"`
	// At is the writer's clock.
	At      time.Time `json:"at"`
	Host    string    `json:"host,omitempty"`
	Program string    `json:"program"`
	Version string    `json:"version,omitempty"`
	About
	// Result is set in the entry of a result.
	Result *Result `json:"result,omitempty"`
	// Unannounced says that the intention could not be written before the act.
	Unannounced bool `json:"unannounced,omitempty"`

	seq    uint64
	stored time.Time
	name   string // its subject after the prefix
}

// newID returns the id of an act.
func newID() string { return strings.ToLower(rand.Text()[:20]) }

// aboutAll stands for the token of an act that is about neither one order nor
// one import.
const aboutAll = "all.-"

// subject returns an entry's subject after the prefix:
// KIND.order.TOKEN.ID.STEP, KIND.batch.TOKEN.ID.STEP or KIND.all.-.ID.STEP.
func (e *Entry) subject() string {
	about := aboutAll
	switch {
	case e.OrderNo != "":
		about = aboutOrder(e.OrderNo)
	case e.Batch != "":
		about = aboutBatch(e.Batch)
	}
	return fmt.Sprintf("%s.%s.%s.%s", e.Kind, about, e.ID, e.Step)
}

func aboutOrder(orderNo string) string { return "order." + settle.FileToken(order.Token(orderNo)) }
func aboutBatch(batch string) string   { return "batch." + settle.FileToken(order.Token(batch)) }

// decode reads a message of the journal.
func decode(m *settle.Message, name string) (*Entry, error) {
	e := &Entry{seq: m.Seq, stored: m.Time, name: name}
	err := json.Unmarshal(m.Data, e)
	if err == nil && (e.ID == "" || !strings.HasSuffix(name, "."+e.ID+"."+string(e.Step))) {
		err = fmt.Errorf("its subject %s is not that of act %q", m.Subject, e.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("journal, sequence %d: not an entry that this version can read: %w", m.Seq, err)
	}
	return e, nil
}
