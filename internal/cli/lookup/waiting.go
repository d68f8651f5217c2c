package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Waiting is an intent in the waiting room.
type Waiting struct {
	IntentID string `json:"intent_id"`
	Batch    string `json:"batch,omitempty"`
	// NotBefore is the time that it waits for, as its producer wrote it.
	NotBefore string    `json:"not_before,omitempty"`
	Stored    time.Time `json:"stored"`
	// Held says who keeps its import where it is, or that it needs an approval; "" = neither.
	Held string `json:"held,omitempty"`
}

// mostWaiting is how many waiting intents a lookup reads. Subjects of the waiting room
// do not name orders, so it reads all of them. Tests lower it.
var mostWaiting uint64 = 200_000

// findWaiting reads which intents of the order wait. What cannot be read there hides
// nothing else.
func (f *Finding) findWaiting(ctx context.Context, q *queue.Queue) error {
	n, err := q.Waiting.Total(ctx)
	holds := &imports.Feeding{}
	if err == nil && n > 0 {
		holds, err = imports.ReadFeeding(ctx, q, 0)
	}
	switch {
	case err == nil && n > mostWaiting:
		err = fmt.Errorf("%d intents wait, too many to look through", n)
	case err == nil:
		err = imports.WaitingOfOrder(ctx, q, f.OrderNo)(func(page []*settle.Message) error {
			for _, m := range page {
				f.Waiting = append(f.Waiting, Waiting{IntentID: m.IntentID(),
					Batch: m.Header.Get(settle.HeaderBatch), NotBefore: m.Header.Get(settle.HeaderNotBefore), Stored: m.Time,
					Held: holds.HoldOf(q.Waiting.Import(m)).By()})
			}
			return nil
		})
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, queue.ErrUnreachable)) {
		return err
	}
	if err != nil {
		f.NoWaiting = err.Error()
	}
	return nil
}

// waiting prints the intents that wait.
func (p *page) waiting(f *Finding) {
	for _, w := range f.Waiting {
		text := "an intent waits for its turn"
		if w.NotBefore != "" {
			text = "an intent waits for its time, " + Plain(w.NotBefore)
		}
		if w.Batch != "" {
			text += " (batch " + Plain(w.Batch) + ")"
		}
		if w.Held != "" {
			text += ", held by " + Plain(w.Held)
		}
		p.row("waiting room", text)
	}
	if f.NoWaiting != "" {
		p.row("waiting room", "not known: "+f.NoWaiting)
	}
}
