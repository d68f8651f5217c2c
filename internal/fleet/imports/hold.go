package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Hold is a person's pause of one import: its waiting intents stay where they are. The
// holds of all imports are one value of the fleet's bucket.
type Hold struct {
	Who string    `json:"by,omitempty"`
	At  time.Time `json:"at"`
	// ForApproval says that nobody paused the import, and it needs an approval: what needs
	// one. Only HeldBy fills it in.
	ForApproval string `json:"-"`
}

// By says who paused the import, or that it lacks an approval; "" if neither.
func (h *Hold) By() string {
	if h == nil {
		return ""
	}
	if h.ForApproval != "" {
		return "the approval that it needs"
	}
	return cmp.Or(h.Who, "somebody")
}

// mostHolds bounds how many imports are paused at once: every change writes all of
// them.
const mostHolds = 1000

// ImportToken returns the token under which the intents of an import wait.
func ImportToken(batch string) string { return settle.ImportToken(batch) }

// WaitingOf returns how many orders of an import are in the waiting room; "" = of all.
func WaitingOf(ctx context.Context, q *queue.Queue, batch string) (uint64, error) {
	if batch == "" {
		return q.Waiting.Total(ctx)
	}
	return q.Waiting.Of(ctx, ImportToken(batch))
}

// ImportName returns the name of an import by its token, or the token where it encodes
// none.
func ImportName(token string) string {
	if name, err := order.OrderNoFromToken(token); err == nil {
		return name
	}
	return token
}

// ReadHold reads who paused an import; nil if nobody did.
func ReadHold(ctx context.Context, q *queue.Queue, batch string) (*Hold, error) {
	f, err := ReadFeeding(ctx, q, 0)
	if err != nil {
		return nil, err
	}
	return f.Holds[ImportToken(batch)], nil
}

// changeHold sets the hold of an import, or removes it (nil). A pause that there is
// already stays. It returns the hold as it was before, and the revision as of which the
// change is in effect. It writes what stays the same, too: a replica that lags may have
// told of holds that are gone, and the write proves that it did not.
func changeHold(ctx context.Context, q *queue.Queue, token string, next *Hold) (before *Hold, revision uint64, err error) {
	err = queue.Again(ctx, func() error {
		f, err := ReadFeeding(ctx, q, 0)
		if err != nil {
			return err
		}
		if f.Holds == nil {
			f.Holds = make(map[string]*Hold)
		}
		switch before = f.Holds[token]; {
		case next == nil:
			delete(f.Holds, token)
		case before == nil:
			f.Holds[token] = next
		}
		if len(f.Holds) > mostHolds {
			return fmt.Errorf("%d imports are paused already: let some of them go on, or cancel them", mostHolds)
		}
		revision, err = q.Bucket().Swap(ctx, holdsKey, f.Holds, f.HoldsRevision)
		return err
	})
	return before, revision, err
}

// ResumeImport lets an import go on that was paused. It returns who paused it; nil if nobody
// did.
func ResumeImport(ctx context.Context, q *queue.Queue, batch string) (held *Hold, err error) {
	held, _, err = changeHold(ctx, q, ImportToken(batch), nil)
	return held, err
}

// holdLook is the time between two looks whether the feeder keeps a hold.
const holdLook = 50 * time.Millisecond

// PauseImport keeps what waits of an import where it is, until ResumeImport. It
// returns once the feeder has none of its intents in hand, or no worker feeds: a lease that
// is not renewed for its term is nobody's.
func PauseImport(ctx context.Context, q *queue.Queue, batch, by string) error {
	token := ImportToken(batch)
	_, revision, err := changeHold(ctx, q, token, &Hold{Who: by, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	var seen uint64
	var since time.Time
	read := time.Now() // when the last answer was as of the pause, or later
	for {
		f, err := ReadFeeding(ctx, q, revision)
		if err == nil {
			read = time.Now()
		}
		behind := errors.Is(err, ErrBehind)
		switch {
		case behind && time.Since(read) < fleet.LeaseTerm:
		case behind, err == nil && f.Holds[token] == nil: // be it with its bucket
			return ErrResumed
		case err != nil:
			return err
		case f.Lease == nil || f.Lease.Holds >= revision:
			return nil
		case f.LeaseRevision != seen:
			seen, since = f.LeaseRevision, time.Now()
		case time.Since(since) > fleet.LeaseTerm:
			return nil
		}
		if err := settle.Sleep(ctx, holdLook); err != nil {
			return err
		}
	}
}

// ErrResumed means that somebody let an import go on while it was paused.
var ErrResumed = errors.New("somebody let the import go on meanwhile; pause it again")
