package imports

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"hash/maphash"
	"maps"
	"regexp"
	"slices"
	"strings"
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
	// Columns are the fields of the orders with numbers, by name, without the timeout, and
	// the texts that hold amounts. MoreColumns says that there are others.
	Columns     []*Column
	MoreColumns bool
	First       []AssessedRow
}

// Column sums up one field of the orders, by its path, as in order.amount.
type Column struct {
	Name string
	// Sum is exact, and so is Unsigned, which adds up the numbers without their signs. Numbers
	// counts the orders that have one, Others those that have none, or one of more than 100 digits.
	Sum, Unsigned   decimal.Decimal
	Numbers, Others int
	last            uint64 // the order counted last: a.b may be a field, and b a field of a
	// Text says that the numbers are texts, and amounts: some has decimal places, and no
	// order has another text there.
	Text    bool
	Largest []AssessedRow
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
	mostColumns  = 40
	mostTexts    = 1000
	shownRows    = 5
	mostBodyText = 2000
	mostDigits   = 100
)

// Assess reads all that waits of an import, at most up to a sequence. column is one whose
// texts count as numbers, too: the one that a rule names; "" = none. tell is called with the
// number of orders read; nil = nobody wants to know. It remembers 8 bytes for each order.
func Assess(ctx context.Context, q *queue.Queue, batch, column string, upTo uint64, tell func(read int)) (*Assessment, error) {
	end, err := q.Waiting.End(ctx)
	if err != nil {
		return nil, err
	}
	a := &assessor{column: column, digest: sha256.New(), seed: maphash.MakeSeed(), columns: make(map[string]*Column), texts: make(map[string]*Column)}
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
	column  string
	digest  hash.Hash
	seed    maphash.Seed
	numbers []uint64 // hashes of the order_nos
	columns map[string]*Column
	texts   map[string]*Column // nil = not all are numbers
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
	if len(o.First) < shownRows {
		o.First = append(o.First, assessed(m))
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(m.Data))
	decoder.UseNumber()
	if _, err := order.Parse(m.Data); err != nil || decoder.Decode(&fields) != nil {
		o.Unreadable++
		return
	}
	a.fields("", fields, m)
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

// fields adds the numbers of an object to their columns.
func (a *assessor) fields(prefix string, object map[string]any, m *settle.Message) {
	for name, value := range object {
		name = prefix + name
		switch v := value.(type) {
		case map[string]any:
			a.fields(name+".", v, m)
		case json.Number:
			if name != order.FieldTimeout || name == a.column {
				a.number(a.columns, mostColumns, name, v.String(), m)
			}
		case string:
			if name == a.column {
				a.number(a.columns, mostColumns, name, v, m)
			} else if name != order.FieldOrderNo && v != "" {
				a.text(name, v, m)
			}
		}
	}
}

// amount matches the texts that may be amounts. A number with a zero in front is a code.
var amount = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// text adds a text to its column, which has amounts unless one text is none.
func (a *assessor) text(name, text string, m *settle.Message) {
	switch c, known := a.texts[name]; {
	case known && c == nil:
	case !amount.MatchString(text) || len(text) > mostDigits:
		if known || len(a.texts) < mostTexts {
			a.texts[name] = nil
		}
	default:
		if a.number(a.texts, mostTexts, name, text, m); strings.Contains(text, ".") && a.texts[name] != nil {
			a.texts[name].Text = true
		}
	}
}

func (a *assessor) number(in map[string]*Column, most int, name, text string, m *settle.Message) {
	c := in[name]
	if c == nil {
		if len(in) >= most && name != a.column {
			a.out.MoreColumns = true
			return
		}
		c = &Column{Name: name}
		in[name] = c
	}
	if len(text) > mostDigits {
		return
	}
	value, err := decimal.NewFromString(text)
	if err != nil || !summable(value, text) {
		return
	}
	if c.Numbers == 0 || c.last != m.Seq {
		c.Numbers, c.last = c.Numbers+1, m.Seq
	}
	c.Sum, c.Unsigned = c.Sum.Add(value), c.Unsigned.Add(value.Abs())
	at, _ := slices.BinarySearchFunc(c.Largest, value, func(r AssessedRow, v decimal.Decimal) int {
		return cmp.Or(v.Cmp(r.Value), -1) // behind those that are as large
	})
	if at < shownRows {
		row := assessed(m)
		row.Value = value
		c.Largest = slices.Insert(c.Largest, at, row)
		c.Largest = c.Largest[:min(len(c.Largest), shownRows)]
	}
}

// summable reports whether a number can be added up exactly in bounded memory.
func summable(d decimal.Decimal, text string) bool {
	return len(text) <= mostDigits && d.Exponent() <= mostDigits && d.Exponent() >= -mostDigits
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
	for _, name := range slices.Sorted(maps.Keys(a.texts)) {
		switch c := a.texts[name]; {
		case c == nil || !c.Text || a.columns[name] != nil:
		case len(a.columns) < mostColumns:
			a.columns[name] = c
		default:
			o.MoreColumns = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.columns)) {
		c := a.columns[name]
		c.Others = o.Count - c.Numbers
		o.Columns = append(o.Columns, c)
	}
	return o
}
