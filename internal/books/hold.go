package books

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Hold keeps the waiting intents of one import where they are, while it has at
// least one holder. The holds of all imports are one value of the fleet's bucket.
type Hold []Holder

// Holder is a person's pause, or a cancellation that is under way or was cut off.
type Holder struct {
	ID     string    `json:"id"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
	Cancel bool      `json:"cancel,omitempty"`
	// Order is the order_no that is cancelled; "" = the import.
	Order string `json:"order,omitempty"`
}

// By says who holds the import; "" if nobody does. A cancellation goes before a pause.
func (h Hold) By() string {
	if len(h) == 0 {
		return ""
	}
	first := h[max(h.cancellation(), 0)]
	who, what := cmp.Or(first.By, "somebody"), ""
	if !first.Cancel {
		return who
	}
	if first.Order != "" {
		what = "order " + first.Order + " of "
	}
	return fmt.Sprintf("%s, whose cancellation of %s%s is not done", who, what, first.At.UTC().Format(time.RFC3339))
}

// cancellation returns the index of the first cancellation, one of the import before
// one of an order; -1 if there is none.
func (h Hold) cancellation() int {
	if i := slices.IndexFunc(h, func(o Holder) bool { return o.Cancel && o.Order == "" }); i >= 0 {
		return i
	}
	return slices.IndexFunc(h, func(o Holder) bool { return o.Cancel })
}

// Cancels reports whether a cancellation holds the import.
func (h Hold) Cancels() bool { return h.cancellation() >= 0 }

// Order returns the order_no whose cancellation holds the import; "" if the import is
// cancelled, or only paused.
func (h Hold) Order() string {
	if i := h.cancellation(); i >= 0 {
		return h[i].Order
	}
	return ""
}

func (h Hold) has(id string) bool {
	return slices.ContainsFunc(h, func(o Holder) bool { return o.ID == id })
}

// pauseID is the ID of a person's pause.
const pauseID = "pause"

// mostHolds bounds how many imports are held at once: every change writes all of
// them.
const mostHolds = 1000

// ImportToken returns the token under which the intents of an import wait.
func ImportToken(batch string) string {
	if batch == "" {
		return settle.NoImport
	}
	return order.Token(batch)
}

// ImportName returns the name of an import by its token, or the token where it encodes
// none.
func ImportName(token string) string {
	if name, err := order.OrderNoFromToken(token); err == nil {
		return name
	}
	return token
}

// ReadHold reads what holds an import; nil if nothing does.
func ReadHold(ctx context.Context, q *queue.Queue, batch string) (Hold, error) {
	f, err := ReadFeeding(ctx, q, 0)
	if err != nil {
		return nil, err
	}
	return f.Holds[ImportToken(batch)], nil
}

// changeHold changes the holders of an import. It returns the hold as it was
// before, and the revision as of which the change is in effect. It writes what stays
// the same, too: a replica that lags may have told of holds that are gone, and the
// write proves that it did not.
func changeHold(ctx context.Context, q *queue.Queue, token string, change func(Hold) Hold) (before Hold, revision uint64, err error) {
	for {
		f, err := ReadFeeding(ctx, q, 0)
		if err != nil {
			return nil, 0, err
		}
		before = f.Holds[token]
		next := change(slices.Clone(before))
		if f.Holds == nil {
			f.Holds = make(map[string]Hold)
		}
		if f.Holds[token] = next; len(next) == 0 {
			delete(f.Holds, token)
		}
		if len(f.Holds) > mostHolds {
			return nil, 0, fmt.Errorf("%d imports are paused or being cancelled already: let some of them go on, or cancel them again", mostHolds)
		}
		revision, err = q.Bucket().Swap(ctx, holdsKey, f.Holds, f.HoldsRevision)
		if !errors.Is(err, settle.ErrStale) {
			return before, revision, err
		}
		if err := pause(ctx, holdLook); err != nil { // another person was first, or a replica lags
			return nil, 0, err
		}
	}
}

// PauseImport keeps what waits of an import where it is, until ResumeImport. It
// returns once the feeder has none of its intents in hand.
func PauseImport(ctx context.Context, q *queue.Queue, batch, by string) error {
	mine := Holder{ID: pauseID, By: by, At: time.Now().UTC()}
	h := &holding{q: q, token: ImportToken(batch), id: pauseID}
	return h.begin(ctx, func(hs Hold) Hold {
		if hs.has(pauseID) {
			return hs
		}
		return append(hs, mine)
	})
}

// ResumeImport lets an import go on that was paused, or whose cancellation was cut
// off. Such an import does not count as cancelled any more. ResumeImport returns what held
// it; nil if nothing did.
func ResumeImport(ctx context.Context, q *queue.Queue, batch string) (held Hold, err error) {
	held, err = release(ctx, q, batch)
	if err == nil && slices.ContainsFunc(held, func(o Holder) bool { return o.Cancel && o.Order == "" }) {
		err = unmark(ctx, q, batch, time.Time{})
	}
	return held, err
}

// release ends everything that holds an import, and returns what did.
func release(ctx context.Context, q *queue.Queue, batch string) (held Hold, err error) {
	held, _, err = changeHold(ctx, q, ImportToken(batch), func(Hold) Hold { return nil })
	return held, err
}

const (
	// FeederTerm is how long a feeder may act after its lease was confirmed.
	// Another worker takes over once it has seen no renewal for this time.
	FeederTerm = 6 * time.Second
	// holdLook is the time between two looks whether the feeder keeps a hold.
	holdLook = 50 * time.Millisecond
)

// holding keeps the feeder from one import.
type holding struct {
	q        *queue.Queue
	token    string
	id       string
	revision uint64 // as of which the hold exists
}

// hold keeps the feeder from an import for a cancellation, and returns once it has
// none of its intents in hand.
func hold(ctx context.Context, q *queue.Queue, token, by, orderNo string) (*holding, error) {
	h := &holding{q: q, token: token, id: rand.Text()}
	holder := Holder{ID: h.id, By: by, At: time.Now().UTC(), Cancel: true, Order: orderNo}
	return h, h.begin(ctx, func(hs Hold) Hold { return append(hs, holder) })
}

// begin writes the hold, and waits until the feeder keeps it or no worker feeds. A
// lease that is not renewed for its term is nobody's.
func (h *holding) begin(ctx context.Context, change func(Hold) Hold) (err error) {
	if _, h.revision, err = changeHold(ctx, h.q, h.token, change); err != nil {
		return err
	}
	var seen uint64
	var since time.Time
	for {
		f, err := h.look(ctx)
		switch {
		case err != nil:
			return err
		case f.Lease == nil || f.Lease.Holds >= h.revision:
			return nil
		case f.LeaseRevision != seen:
			seen, since = f.LeaseRevision, time.Now()
		case time.Since(since) > FeederTerm:
			return nil
		}
		if err := pause(ctx, holdLook); err != nil {
			return err
		}
	}
}

// ErrResumed means that somebody let an import go on while it was paused or
// withdrawn.
var ErrResumed = errors.New("somebody let the import go on meanwhile; run the command again")

// look reads what is fed, as of the hold or later. It returns ErrResumed if the hold
// is gone, be it with its bucket.
func (h *holding) look(ctx context.Context) (*Feeding, error) {
	for began := time.Now(); ; {
		f, err := ReadFeeding(ctx, h.q, h.revision)
		switch {
		case errors.Is(err, ErrBehind) && time.Since(began) < FeederTerm:
			if err := pause(ctx, holdLook); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, ErrBehind), err == nil && !f.Holds[h.token].has(h.id):
			return nil, ErrResumed
		}
		return f, err
	}
}

// endOfOrder ends what cancellations of an order hold that were cut off.
func endOfOrder(ctx context.Context, q *queue.Queue, orderNo string) error {
	f, err := ReadFeeding(ctx, q, 0)
	if err != nil {
		return err
	}
	of := func(o Holder) bool { return o.Cancel && o.Order == orderNo }
	for token, h := range f.Holds {
		if slices.ContainsFunc(h, of) {
			_, _, e := changeHold(ctx, q, token, func(hs Hold) Hold { return slices.DeleteFunc(hs, of) })
			err = errors.Join(err, e)
		}
	}
	return err
}

// end ends the hold.
func (h *holding) end(ctx context.Context) error {
	_, _, err := changeHold(ctx, h.q, h.token, func(hs Hold) Hold {
		return slices.DeleteFunc(hs, func(o Holder) bool { return o.ID == h.id })
	})
	return err
}
