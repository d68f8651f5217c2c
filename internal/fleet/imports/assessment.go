package imports

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/maphash"
	"slices"
	"time"

	"github.com/shopspring/decimal"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Bound is the part of an import that an approval is about: what waits of it up to a
// sequence of the waiting room. Nothing is stored below that any more.
type Bound struct {
	UpTo  settle.StreamSeq `json:"up_to"`
	Count int              `json:"count"`
	// Digest is the SHA-256 in hex of what is stored: of each order the lane and time, the
	// id, where it came from, the deadline and the body.
	Digest string `json:"digest"`
}

// Assessment is what waits of an import, as somebody needs to see it who is to approve it.
type Assessment struct {
	Bound
	// Oldest and Newest are the broker's times at which it was stored.
	Oldest, Newest time.Time
	// Later counts the orders that wait for a time, the last of them for Latest.
	Later  int
	Latest time.Time
	// Repeated counts the orders whose order_no is there more than once, Unreadable those
	// that are no orders: a worker ends them as invalid.
	Repeated, Unreadable int
	// Columns are those of [Sums]. MoreColumns says that there are others.
	Columns     []*Column
	MoreColumns bool
	// First are the first orders, and Last is the last one, if it is none of those.
	First, Last []AssessedRow
}

// AssessedRow is one order of an import.
type AssessedRow struct {
	OrderNo, Source, Body string
	Value                 decimal.Decimal
}

// Column returns the column of a name. One that no order has is empty.
func (a *Assessment) Column(name string) *Column {
	for _, c := range a.Columns {
		if c.Name == name {
			return c
		}
	}
	return &Column{Name: name, Others: a.Count}
}

// Limits of an assessment.
const (
	shownRows    = 5
	mostBodyText = 2000
)

// Assess reads all that waits of an import, at most up to a sequence. column is one whose
// texts count as numbers, too: the one that a rule names; "" = none. tell is called with the
// number of orders read; nil = nobody wants to know. It remembers 8 bytes for each order.
func Assess(ctx context.Context, q *queue.Queue, batch, column string, upTo uint64, tell func(read int)) (*Assessment, error) {
	end, err := q.Waiting.End(ctx)
	if err != nil {
		return nil, err
	}
	a := &assessor{digest: sha256.New(), seed: maphash.MakeSeed(), sums: NewSums(column)}
	a.out.UpTo.Birth = end.Birth          // as of before the reading
	pages := make(chan []*settle.Message) // the next one is read while one is added up
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		defer close(pages)
		return q.Waiting.Each(ctx, ImportToken(batch), upTo, func(page []*settle.Message) error {
			select {
			case pages <- page:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	both.Go(func() error {
		for page := range pages {
			for _, m := range page {
				a.add(m)
			}
			if tell != nil {
				tell(a.out.Count)
			}
		}
		return nil
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	return a.finish(), nil
}

// assessor reads orders one after another.
type assessor struct {
	out     Assessment
	digest  hash.Hash
	seed    maphash.Seed
	numbers []uint64 // hashes of the order_nos
	sums    *Sums
	last    *settle.Message // behind the first ones; nil = there is none
}

func (a *assessor) add(m *settle.Message) {
	o := &a.out
	o.Count++
	o.UpTo.Seq = max(o.UpTo.Seq, m.Seq)
	a.write(m)
	if o.Oldest.IsZero() || m.Time.Before(o.Oldest) {
		o.Oldest = m.Time
	}
	if m.Time.After(o.Newest) {
		o.Newest = m.Time
	}
	if text := m.Header.Get(settle.HeaderNotBefore); text != "" {
		if at, err := order.ParseNotBefore(text, m.Time); err == nil {
			o.Later++
			if at.After(o.Latest) {
				o.Latest = at
			}
		}
	}
	a.numbers = append(a.numbers, maphash.String(a.seed, settle.WaitingOrderNo(m)))
	if a.last = nil; len(o.First) < shownRows {
		o.First = append(o.First, assessed(m))
	} else {
		a.last = m
	}
	if _, err := order.Parse(m.Data); err != nil {
		o.Unreadable++
		return
	}
	a.sums.Add(m.Data, func() AssessedRow { return assessed(m) })
}

// assessed returns the row of an order. Only a few are shown.
func assessed(m *settle.Message) AssessedRow {
	return AssessedRow{OrderNo: settle.WaitingOrderNo(m), Source: order.Truncate(m.Header.Get(settle.HeaderSource), mostBodyText), Body: order.Clip(string(m.Data), mostBodyText)}
}

// write adds a message to the digest, each part with its length.
func (a *assessor) write(m *settle.Message) {
	for _, part := range []string{m.Subject, m.Header.Get(settle.HeaderIntentID), m.Header.Get(settle.HeaderBatch), m.Header.Get(settle.HeaderSource),
		m.Header.Get(settle.HeaderDeadline), m.Header.Get(settle.HeaderNotBefore), string(m.Data)} {
		_, _ = a.digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash returns no error
		_, _ = a.digest.Write([]byte(part))
	}
}

func (a *assessor) finish() *Assessment {
	o := &a.out
	o.Digest = hex.EncodeToString(a.digest.Sum(nil))
	slices.Sort(a.numbers)
	for i := 1; i < len(a.numbers); i++ {
		if a.numbers[i] == a.numbers[i-1] {
			o.Repeated++
		}
	}
	o.Columns, o.MoreColumns = a.sums.Columns(o.Count)
	if a.last != nil {
		o.Last = []AssessedRow{assessed(a.last)}
	}
	return o
}
