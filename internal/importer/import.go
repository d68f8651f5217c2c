package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strconv"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// Publisher stores intents; queue.Queue is one.
type Publisher interface {
	PublishMany(ctx context.Context, intents []queue.Intent) []queue.PublishResult
}

// chunk is how many rows are published together.
const chunk = 500

// maxErrors is how many bad rows a check reports before it stops.
const maxErrors = 20

// Options say how a file is imported.
type Options struct {
	// File names the source in messages and in Order-Source.
	File string
	// Batch names the import; empty: the beginning of the content's SHA-256.
	Batch string
	// Deadline of every order; zero: none.
	Deadline time.Time
}

// Summary says what became of the rows of a file.
type Summary struct {
	File  string `json:"file"`
	Batch string `json:"batch"`
	Rows  int    `json:"rows"`
	// Stored rows are in the queue. AlreadyPending ones have an intent there
	// that is not settled; AlreadyKnown ones were stored by the same import a
	// moment ago. Failed ones are not known to be stored.
	Stored         int `json:"stored"`
	AlreadyPending int `json:"already_pending"`
	AlreadyKnown   int `json:"already_known"`
	Failed         int `json:"failed"`
	// Warnings counts what another reading of the signing contract would sign
	// differently (signing rule 12); Examples are the first few.
	Warnings int      `json:"warnings"`
	Examples []string `json:"warning_examples,omitempty"`
	// Errors are the reasons of failed rows, at most 20.
	Errors []string `json:"errors,omitempty"`
}

// Check reads the whole file and reports its bad rows, at most 20, joined. It
// returns the batch id of the content and the number of rows.
func Check(file io.Reader, o Options) (Summary, error) {
	hash := sha256.New()
	s := Summary{File: o.File, Batch: o.Batch}
	rows, err := newReader(o.File, io.TeeReader(file, hash))
	if err != nil {
		return s, err
	}
	var errs []error
	seen := newSeenNumbers()
	for len(errs) < maxErrors {
		row, err := rows.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *RowError
		if err == nil {
			s.Rows++
			s.warn(o.File, row)
			err = seen.add(o.File, row)
		}
		switch {
		case errors.As(err, &bad):
			errs = append(errs, err)
		case err != nil:
			return s, err
		}
	}
	if len(errs) == maxErrors {
		errs = append(errs, fmt.Errorf("%s: stopped after %d bad rows", o.File, maxErrors))
	}
	if s.Batch == "" {
		s.Batch = hex.EncodeToString(hash.Sum(nil)[:8])
	}
	return s, errors.Join(errs...)
}

const maxExamples = 3

func (s *Summary) warn(file string, row Row) {
	s.Warnings += len(row.Warnings)
	for _, w := range row.Warnings {
		if len(s.Examples) < maxExamples {
			s.Examples = append(s.Examples, fmt.Sprintf("%s:%d: %s", file, row.Line, w.Message))
		}
	}
}

// seenNumbers finds an order_no that occurs twice in a file. It remembers a
// 64-bit hash and the line of each, about 40 bytes a row: a false alarm is less
// likely than one in ten million even for a file of a million rows.
type seenNumbers struct {
	seed  maphash.Seed
	lines map[uint64]int
}

func newSeenNumbers() *seenNumbers {
	return &seenNumbers{seed: maphash.MakeSeed(), lines: make(map[uint64]int)}
}

func (s *seenNumbers) add(file string, row Row) error {
	h := maphash.String(s.seed, row.OrderNo)
	if first, twice := s.lines[h]; twice {
		return &RowError{File: file, Line: row.Line, Name: order.FieldOrderNo,
			Err: fmt.Errorf("order_no %q occurs in line %d already; each order needs its own", row.OrderNo, first)}
	}
	s.lines[h] = row.Line
	return nil
}

// Publish reads a checked file again and publishes its rows. The error is
// about the file or the context; rows that were not confirmed are counted in
// the summary.
func Publish(ctx context.Context, file io.Reader, to Publisher, checked Summary, o Options) (Summary, error) {
	s := checked
	rows, err := newReader(o.File, file)
	if err != nil {
		return s, err
	}
	batch := make([]queue.Intent, 0, chunk)
	for done := false; !done; {
		row, err := rows.next()
		switch {
		case errors.Is(err, io.EOF):
			done = true
		case err != nil:
			return s, fmt.Errorf("the file changed after it was checked: %w", err)
		default:
			batch = append(batch, s.intent(row, o))
		}
		if len(batch) == chunk || done && len(batch) > 0 {
			s.add(batch, to.PublishMany(ctx, batch))
			batch = batch[:0]
		}
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
	}
	return s, nil
}

func (s *Summary) intent(row Row, o Options) queue.Intent {
	return queue.Intent{
		OrderNo: row.OrderNo, Body: row.Body, Batch: s.Batch, Deadline: o.Deadline,
		ID:     s.Batch + ":" + strconv.Itoa(row.Number),
		Source: o.File + ":" + strconv.Itoa(row.Line),
	}
}

func (s *Summary) add(batch []queue.Intent, results []queue.PublishResult) {
	for i, r := range results {
		switch {
		case r.Err != nil:
			s.Failed++
			if len(s.Errors) < maxErrors {
				s.Errors = append(s.Errors, fmt.Sprintf("%s: order %s: %v", batch[i].Source, batch[i].OrderNo, r.Err))
			}
		case r.Published == queue.Stored:
			s.Stored++
		case r.Published == queue.AlreadyPending:
			s.AlreadyPending++
		case r.Published == queue.AlreadyKnown:
			s.AlreadyKnown++
		}
	}
}
