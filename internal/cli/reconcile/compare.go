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
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
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

// entry is a line of the list, or what a record says. Times are in Unix milliseconds.
type entry struct {
	OrderNo                              string
	Line                                 int // 0 = it is a record
	Outcome                              order.Outcome
	Word, Reason, Batch, WriteID         string
	FirstAttempt, LastAttempt, SettledAt int64
	Letter                               uint64
	HadBefore                            bool // the record itself says that the API had the number before
}

func recordEntry(r *order.Record) *entry {
	ms := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return &entry{OrderNo: r.OrderNo, Outcome: r.Outcome(), Word: r.Word, Reason: r.Reason, Batch: r.Batch, WriteID: r.WriteID, Letter: r.Letter,
		FirstAttempt: ms(r.FirstAttemptAt), LastAttempt: ms(r.LastAttemptAt), SettledAt: ms(r.SettledAt), HadBefore: r.Verdict == order.Duplicate}
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
	first, last := time.UnixMilli(cmp.Or(r.FirstAttempt, r.SettledAt)), time.UnixMilli(cmp.Or(r.LastAttempt, r.SettledAt))
	class := Missing
	switch r.Outcome {
	case order.OutcomeAccepted:
	case order.OutcomeUnknown:
		class, last = UnknownAbsent, time.UnixMilli(max(r.LastAttempt, r.SettledAt))
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

func newSpread(dir string) (*spread, error) {
	s := &spread{seed: maphash.MakeSeed()}
	for i := range s.files {
		f, err := os.CreateTemp(dir, "part-*")
		if err != nil {
			return s, err
		}
		s.files[i], s.buffers[i] = f, bufio.NewWriterSize(f, 32<<10)
		s.encode[i] = gob.NewEncoder(s.buffers[i])
	}
	return s, nil
}

func (s *spread) close() {
	for _, f := range s.files {
		if f != nil {
			_ = f.Close() // its folder is removed
		}
	}
}

func (s *spread) add(e *entry) error {
	return s.encode[maphash.String(s.seed, e.OrderNo)%parts].Encode(e)
}

// addRecords adds the record of every order. unreadable counts those that this program does not understand.
func (s *spread) addRecords(ctx context.Context, q *queue.Queue) (unreadable int, err error) {
	return unreadable, q.Results().Walk(ctx, 1, queue.ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			e, err := queue.DecodeRecord(m)
			if errors.Is(err, settle.ErrUnreadable) {
				unreadable++
				continue
			}
			if err == nil {
				err = s.add(recordEntry(e.Record))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
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
func recheck(ctx context.Context, q *queue.Queue, never []*found) (here map[string]bool, err error) {
	here = make(map[string]bool)
	for len(never) > 0 {
		n := min(len(never), checkAtOnce)
		numbers := make([]string, n)
		for i, f := range never[:n] {
			numbers[i] = f.no
		}
		now, err := status.OrderStatuses(ctx, q, numbers)
		if err != nil {
			return nil, err
		}
		for i := range now {
			here[numbers[i]] = now[i].Pending != nil || now[i].Record != nil || now[i].Unreadable != nil
		}
		never = never[n:]
	}
	return here, nil
}
