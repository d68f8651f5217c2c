package importer

import (
	"fmt"
	"slices"

	"orderpost/internal/order"
)

// Fate is what became of one row in an import. The set is closed.
type Fate string

// The fates of rows. A row whose order is settled already, with the same body,
// has the fate "settled_" and the outcome's word.
const (
	// Stored: the order is in the queue.
	Stored Fate = "stored"
	// Corrected: stored, in place of one with another body that certainly failed.
	Corrected Fate = "corrected"
	// Retried: stored again after a certain failure (--retry-failed).
	Retried Fate = "retried"
	// AlreadyPending: the same order waits in the queue or is being worked on.
	AlreadyPending Fate = "already_pending"
	// AlreadyKnown: stored by the same import a moment ago.
	AlreadyKnown Fate = "already_known"
	// Conflict: the order_no is taken by an order with another body that is
	// pending, accepted or in doubt.
	Conflict Fate = "conflict"
	// Forgotten: the same import enqueued it before, and nothing is known of it
	// any more: its result has expired, or was removed.
	Forgotten Fate = "forgotten"
	// Failed: not known to be in the queue.
	Failed Fate = "failed"
	// Invalid: the row was skipped.
	Invalid Fate = "invalid"
)

const settledFate = "settled_"

// Settled is the fate of a row whose order has this outcome already.
func Settled(o order.Outcome) Fate { return Fate(settledFate + o.String()) }

// Fates lists all of them in the order in which people are told.
func Fates() []Fate {
	list := []Fate{Stored, Corrected, Retried, AlreadyPending, AlreadyKnown}
	for _, o := range order.Outcomes() {
		list = append(list, Settled(o))
	}
	return append(list, Conflict, Forgotten, Failed, Invalid)
}

// Meaning is one line for people, without the count.
func (f Fate) Meaning() string {
	switch f {
	case Stored:
		return "enqueued"
	case Corrected:
		return "enqueued as corrections of orders that were not created"
	case Retried:
		return "enqueued again after a failure"
	case AlreadyPending:
		return "not enqueued: an intent for the order_no is pending already"
	case AlreadyKnown:
		return "not enqueued: stored by the same import a moment ago"
	case Conflict:
		return "conflict: the order_no belongs to another order"
	case Forgotten:
		return "not enqueued: imported before, and the results have expired; use another --batch to enqueue them again"
	case Failed:
		return "not known to be enqueued"
	case Invalid:
		return "bad rows, not enqueued"
	default:
		return "not enqueued: " + string(f[len(settledFate):]) + " before"
	}
}

// Fine says whether the row's order is, or may still be, created as asked.
func (f Fate) Fine() bool {
	switch f {
	case Stored, Corrected, Retried, AlreadyPending, AlreadyKnown, Settled(order.OutcomeAccepted):
		return true
	default:
		return false
	}
}

// Summary says what became of the rows of a file.
type Summary struct {
	File  string `json:"file"`
	Batch string `json:"batch"`
	Rows  int    `json:"rows"`
	// Blank rows have no content; they are no orders and not counted as rows.
	Blank    int    `json:"blank,omitempty"`
	Format   Format `json:"format"`
	Encoding string `json:"encoding"`
	// Guessed: the file does not say its encoding, and is not UTF-8.
	Guessed   bool   `json:"encoding_guessed,omitempty"`
	Delimiter string `json:"delimiter,omitempty"`
	// Stored is the number of rows that this import enqueued: new ones,
	// corrections and repetitions.
	Stored int `json:"stored"`
	// Fates counts the rows by what became of them.
	Fates map[Fate]int `json:"fates,omitempty"`
	// Resumed is the number of rows that an earlier, interrupted run of the
	// same import had dealt with; Fates includes them.
	Resumed int `json:"resumed,omitempty"`
	// Invalid is the number of bad rows, Rejects the file that they are in.
	Invalid int    `json:"invalid,omitempty"`
	Rejects string `json:"rejects,omitempty"`
	// Bad are the first of the bad rows.
	Bad []*RowError `json:"-"`
	// Warnings counts what another reading of the signing contract would sign
	// differently (signing rule 12); Examples are the first few.
	Warnings int      `json:"warnings"`
	Examples []string `json:"warning_examples,omitempty"`
	// WarningKinds sums the warnings up, in the order of their first rows.
	WarningKinds []WarningKind `json:"warning_kinds,omitempty"`
	// Errors name conflicts, failed and forgotten rows, the first of them.
	Errors []string `json:"errors,omitempty"`
}

// WarningKind is what there is to say about one kind of warning.
type WarningKind struct {
	Code order.WarningCode `json:"code"`
	// Rows have it; the first one is in Line.
	Rows int `json:"rows"`
	Line int `json:"line"`
	// Fields are the first ones that it is about.
	Fields     []string `json:"fields"`
	MoreFields bool     `json:"more_fields,omitempty"`

	row int // counted last
}

const (
	maxExamples = 3
	maxFields   = 5
)

func (s *Summary) warn(file string, row *Row) {
	s.Warnings += len(row.Warnings)
	for _, w := range row.Warnings {
		s.kind(w.Code, row).add(w.Path, row.Number)
		if len(s.Examples) < maxExamples {
			s.Examples = append(s.Examples, fmt.Sprintf("%s:%d: %s", file, row.Line, w))
		}
	}
}

func (s *Summary) kind(code order.WarningCode, row *Row) *WarningKind {
	at := slices.IndexFunc(s.WarningKinds, func(k WarningKind) bool { return k.Code == code })
	if at < 0 {
		at = len(s.WarningKinds)
		s.WarningKinds = append(s.WarningKinds, WarningKind{Code: code, Line: row.Line})
	}
	return &s.WarningKinds[at]
}

func (k *WarningKind) add(field string, row int) {
	if k.row != row {
		k.row = row
		k.Rows++
	}
	switch {
	case slices.Contains(k.Fields, field):
	case len(k.Fields) < maxFields:
		k.Fields = append(k.Fields, field)
	default:
		k.MoreFields = true
	}
}

// describe takes over what the table knows of the file.
func (s *Summary) describe(t *table) {
	s.Blank, s.Format = t.blank, t.format
	s.Encoding, s.Guessed = t.text.encoding()
	if t.format == FormatCSV {
		s.Delimiter = string(t.dialect.comma)
	}
}

// AllFine says whether every row's order is, or may still be, created as asked.
func (s *Summary) AllFine() bool {
	for fate, n := range s.Fates {
		if n > 0 && !fate.Fine() {
			return false
		}
	}
	return true
}

func (s *Summary) count(fate Fate, n int) {
	if s.Fates == nil {
		s.Fates = make(map[Fate]int)
	}
	s.Fates[fate] += n
	if fate == Stored || fate == Corrected || fate == Retried {
		s.Stored += n
	}
}
