package reconcile

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// Class says how an order stands in the list and in the books.
type Class string

// The classes of orders that do not simply agree.
const (
	Missing       Class = "missing"        // we say accepted, they do not have it
	Created       Class = "created"        // they have it, we say not created
	UnknownExists Class = "unknown-exists" // our outcome is unknown, they have it
	UnknownAbsent Class = "unknown-absent" // our outcome is unknown, they do not have it
	Never         Class = "never-had"      // they have it, the books do not
	Twice         Class = "twice"          // it is in their list more than once; counted besides its other class
	Unsettled     Class = "unsettled"      // they have it, we have no outcome yet
	Recent        Class = "recent"         // they do not have it, and need not: the list may end before its attempts
)

// classes lists them with what they mean, in the order of the summary. The last two are set apart: they contradict nothing.
var classes = []struct {
	Class
	text  string
	apart bool
}{
	{Missing, "we say accepted, they do not have it", false},
	{Created, "they have it, we say not created", false},
	{UnknownExists, "we do not know, they have it", false},
	{UnknownAbsent, "we do not know, they do not have it", false},
	{Never, "they have it, the books do not", false},
	{Twice, "more than once in their list", false},
	{Unsettled, "they have it, we have no outcome yet", true},
	{Recent, "they do not have it, and it is too close to the ends of the list's time to tell", true},
}

// entry is a line of the list, or what a record says.
type entry struct {
	OrderNo                              string
	Line                                 int // 0 = it is a record
	Outcome                              order.Outcome
	Word, Reason, Batch, WriteID         string
	FirstAttempt, LastAttempt, SettledAt time.Time
	Letter                               uint64
	HadBefore                            bool // the record itself says that the API had the number before
}

func recordEntry(r *order.Record) *entry {
	return &entry{OrderNo: r.OrderNo, Outcome: r.Outcome(), Word: r.Word, Reason: r.Reason, Batch: r.Batch, WriteID: r.WriteID, Letter: r.Letter,
		FirstAttempt: r.FirstAttemptAt, LastAttempt: r.LastAttemptAt, SettledAt: r.SettledAt, HadBefore: r.Verdict == order.Duplicate}
}

// found is one order_no in both.
type found struct {
	no     string
	line   int // the first in the list
	times  int // how often the list has it
	record *entry
}

// scope is what the list covers.
type scope struct {
	asOf, since, until time.Time
	margin             time.Duration
	batch              string
}

// lacks says what it means that the list lacks an order; "" = nothing.
func (s *scope) lacks(r *entry) Class {
	first, last, class := cmp.Or(r.FirstAttempt, r.SettledAt), cmp.Or(r.LastAttempt, r.SettledAt), Missing
	switch r.Outcome {
	case order.OutcomeAccepted:
	case order.OutcomeUnknown:
		if class = UnknownAbsent; r.SettledAt.After(last) {
			last = r.SettledAt
		}
	default:
		return ""
	}
	end := s.asOf
	if !s.until.IsZero() && s.until.Before(end) {
		end = s.until
	}
	switch {
	case s.batch != "" && s.batch != r.Batch, last.Before(s.since.Add(-s.margin)):
		return ""
	case !s.since.IsZero() && first.Before(s.since.Add(s.margin)), last.After(end.Add(-s.margin)):
		return Recent
	}
	return class
}

// class compares one order. agrees says that both sides say that it exists.
func (s *scope) class(f *found) (class Class, agrees bool) {
	switch r := f.record; {
	case f.times == 0:
		return s.lacks(r), false
	case r == nil:
		return Never, false
	case r.Outcome == order.OutcomeNone:
		return Unsettled, false
	case r.Outcome == order.OutcomeUnknown:
		return UnknownExists, false
	case r.Outcome == order.OutcomeAccepted || r.HadBefore:
		return "", true
	}
	return Created, false
}

// parts is how many files the orders are spread over. One of them is in memory at a time.
const parts = 64

// spread keeps entries on disk, each order_no's in one file.
type spread struct {
	seed    maphash.Seed
	files   [parts]*os.File
	buffers [parts]*bufio.Writer
	encode  [parts]*gob.Encoder
}

func newSpread(dir string) (s *spread, err error) {
	s = &spread{seed: maphash.MakeSeed()}
	for i := range s.files {
		if s.files[i], err = os.CreateTemp(dir, "part-*"); err != nil {
			return s, err
		}
		s.buffers[i] = bufio.NewWriterSize(s.files[i], 32<<10)
		s.encode[i] = gob.NewEncoder(s.buffers[i])
	}
	return s, nil
}

func (s *spread) close() {
	for _, f := range s.files {
		_ = f.Close() // nil where there was no room; the folder is removed
	}
}

func (s *spread) add(e *entry) error {
	return s.encode[maphash.String(s.seed, e.OrderNo)%parts].Encode(e)
}

// each passes the orders to visit, file by file.
func (s *spread) each(ctx context.Context, visit func([]*found) error) error {
	for i := range s.files {
		err := cmp.Or(ctx.Err(), s.buffers[i].Flush())
		if err == nil {
			_, err = s.files[i].Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		var all []*found
		at := make(map[string]*found)
		for decode := gob.NewDecoder(bufio.NewReader(s.files[i])); ; {
			e := new(entry)
			if err := decode.Decode(e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			f := at[e.OrderNo]
			if f == nil {
				f = &found{no: e.OrderNo, line: e.Line}
				at[e.OrderNo], all = f, append(all, f)
			}
			if e.Line > 0 {
				f.times++
			} else {
				f.record = e // a later one is a record that was written while we read
			}
		}
		if err := visit(all); err != nil {
			return err
		}
	}
	return nil
}

// checkAtOnce is how many order numbers are looked up at once.
const checkAtOnce = 256

// recheck looks again at orders that the books did not have: they may be on their way, or were settled since.
func recheck(ctx context.Context, q *queue.Queue, never []*found, note func(*found, Class)) error {
	for some := range slices.Chunk(never, checkAtOnce) {
		numbers := make([]string, len(some))
		for i, f := range some {
			numbers[i] = f.no
		}
		now, err := status.OrderStatuses(ctx, q, numbers)
		if err != nil {
			return err
		}
		for i, f := range some {
			if n := &now[i]; n.Pending != nil || n.Record != nil || n.Unreadable != nil {
				note(f, Unsettled)
			} else {
				note(f, Never)
			}
		}
	}
	return nil
}
