package queue

import (
	"context"
	"fmt"
	"strings"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// LetterPages passes the dead letters that lie there now to visit, oldest
// first, up to 256 at a time, in constant memory. Letters that are filed while
// it runs (by orders that were replayed meanwhile, for instance) are not
// visited. Letters that cannot be read are passed as errors that name their
// sequences. The tail of a body that was stored in two parts is not read.
func (q *Queue) LetterPages(ctx context.Context, visit func(page []*settle.Letter, unreadable []error) error) error {
	stream, err := q.stream(ctx, q.n.dead)
	if err != nil {
		return fmt.Errorf("dead letters out of reach: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	for next := uint64(1); next != 0 && next <= last; {
		var raws []*settle.Message
		if raws, next, err = q.page(ctx, q.n.dead, q.n.deadPre+"*", next); err != nil {
			return err
		}
		page, unreadable := q.decodeLetters(raws, last)
		if len(page)+len(unreadable) > 0 {
			if err := visit(page, unreadable); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Queue) decodeLetters(raws []*settle.Message, last uint64) (page []*settle.Letter, unreadable []error) {
	for _, raw := range raws {
		if raw.Seq > last {
			break
		}
		l, err := decodeLetter(raw)
		if err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		l.FiledUnder = strings.TrimPrefix(raw.Subject, q.n.deadPre)
		page = append(page, l)
	}
	return page, unreadable
}

// WouldDrop gives those of listed letters, 256 at most, that Drop would forget
// now: no intent for their order_no is in the queue.
func (q *Queue) WouldDrop(ctx context.Context, letters []*settle.Letter) ([]*settle.Letter, error) {
	numbers := make([]string, len(letters))
	for i, l := range letters {
		numbers[i] = l.OrderNo
	}
	var out []*settle.Letter
	pending := make([]bool, len(letters))
	err := q.lookups(ctx, q.n.intents, numbers, func(no string) string { return q.n.newPre + settle.FileToken(order.Token(no)) },
		func(i int, _ *settle.Message) error {
			pending[i] = true
			return nil
		})
	for i, l := range letters {
		if !pending[i] {
			out = append(out, l)
		}
	}
	return out, err
}
