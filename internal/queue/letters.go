package queue

import (
	"context"
	"fmt"
	"strings"

	"orderpost/internal/order"
)

// LetterPages passes the dead letters that lie there now to visit, oldest
// first, up to 256 at a time, in constant memory. Letters that are filed while
// it runs (by orders that were replayed meanwhile, for instance) are not
// visited. Letters that cannot be read are passed as errors that name their
// sequences. The tail of a body that was stored in two parts is not read.
func (q *Queue) LetterPages(ctx context.Context, visit func(page []*Letter, unreadable []error) error) error {
	stream, err := q.stream(ctx, q.n.dead)
	if err != nil {
		return fmt.Errorf("dead letters out of reach: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	for next := uint64(1); next != 0 && next <= last; {
		var raws []*rawMsg
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

func (q *Queue) decodeLetters(raws []*rawMsg, last uint64) (page []*Letter, unreadable []error) {
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

// token is what the letter is filed under.
func (l *Letter) token() string {
	if l.FiledUnder != "" {
		return l.FiledUnder
	}
	return fileToken(order.Token(l.OrderNo))
}

// letterAgain reads a listed letter at the leader, its tail included; nil where
// it is gone, or another one has taken its place.
func (q *Queue) letterAgain(ctx context.Context, listed *Letter) (*Letter, error) {
	l, err := q.store.Letter(ctx, listed.token())
	if err != nil || l == nil || l.Seq != listed.Seq {
		return nil, err
	}
	l.FiledUnder = listed.token()
	return l, nil
}

// WholeBody is the letter's body with the tail that was stored apart.
func (q *Queue) WholeBody(ctx context.Context, l *Letter) ([]byte, error) {
	if l.Tail == "" {
		return l.Body, nil
	}
	whole, err := q.letterAgain(ctx, l)
	if err != nil {
		return nil, err
	}
	if whole == nil {
		return nil, fmt.Errorf("dead letter of %s: gone meanwhile", l.OrderNo)
	}
	return whole.Body, nil
}
