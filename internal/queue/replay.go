package queue

import (
	"context"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Prospects says what Replay would do with listed letters, 256 at most, and
// changes nothing: ReplayNone for one whose last word cannot be read. It reads
// many at once, from whichever replica answers.
func (q *Queue) Prospects(ctx context.Context, letters []*settle.Letter, o settle.ReplayOptions) ([]settle.Replay, error) {
	if len(letters) == 0 {
		return nil, nil // the broker refuses an empty question
	}
	intents, results := make([]string, len(letters)), make([]string, len(letters))
	for i, l := range letters {
		intents[i] = q.n.newPre + settle.FileToken(order.Token(l.OrderNo)) // one that is filed under a hash is no intent's
		results[i] = q.n.resPre + l.Token()
	}
	pending, err := q.lastHeads(ctx, q.n.intents, intents)
	if err != nil {
		return nil, err
	}
	settled, err := q.lastMsgs(ctx, q.n.results, results)
	if err != nil {
		return nil, err
	}
	ends := make([]settle.Replay, len(letters))
	for i, l := range letters {
		var entry settle.Entry
		if raw := settled[results[i]]; raw != nil {
			if entry, err = decodeRecord(raw); err != nil {
				continue
			}
		}
		ends[i] = q.JudgeReplay(l, pending[intents[i]], entry, o)
	}
	return ends, nil
}
