package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/order"
)

// Fate is what became of one row in an import. The set is closed.
type Fate string

// The fates of rows. The fate of a row whose order is already settled with the same
// body is "settled_" plus the outcome's word.
const (
	// Stored: the order is in the queue.
	Stored Fate = "stored"
	// Corrected: stored in place of an order with another body that certainly failed.
	Corrected Fate = "corrected"
	// Retried: stored again after a certain failure (--retry-failed).
	Retried Fate = "retried"
	// AlreadyPending: the same order is in the queue or a worker has it in hand.
	AlreadyPending Fate = "already_pending"
	// AlreadyKnown: the same import stored it a moment ago.
	AlreadyKnown Fate = "already_known"
	// Conflict: the order_no belongs to an order with another body that is pending,
	// accepted or in doubt.
	Conflict Fate = "conflict"
	// Forgotten: the same import enqueued it before, but its result expired or was
	// removed.
	Forgotten Fate = "forgotten"
	// Failed: it is unknown whether the order is in the queue.
	Failed Fate = "failed"
	// Invalid: the row was skipped.
	Invalid Fate = "invalid"
)

const settledFate = "settled_"

// Settled returns the fate of a row whose order already has this outcome.
func Settled(o order.Outcome) Fate { return Fate(settledFate + o.String()) }

// Fates lists all fates in display order.
func Fates() []Fate {
	list := []Fate{Stored, Corrected, Retried, AlreadyPending, AlreadyKnown}
	for _, o := range order.Outcomes() {
		list = append(list, Settled(o))
	}
	return append(list, Conflict, Forgotten, Failed, Invalid)
}

// Meaning returns a phrase for people, without the count.
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
		return "conflict: the order_no has an order already, with other fields"
	case Forgotten:
		return "not enqueued: imported before, and nothing is known of them any more: their results have expired, or a stream was lost; an import of the same file under another batch name enqueues them again"
	case Failed:
		return "not known to be enqueued"
	case Invalid:
		return "bad rows, not enqueued"
	default:
		return "not enqueued: " + string(f[len(settledFate):]) + " before"
	}
}

// Fine reports whether the row's order was created or may still be created.
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
	// Blank counts the rows without content. Rows does not include them.
	Blank     int    `json:"blank,omitempty"`
	Format    Format `json:"format"`
	Encoding  string `json:"encoding"`
	Delimiter string `json:"delimiter,omitempty"`
	// Sheet is the sheet of a workbook, and what a person should hear about it.
	Sheet *Sheet `json:"sheet,omitempty"`
	// LeftOut counts the rows that the person left out. Rows does not include them.
	LeftOut int `json:"left_out,omitempty"`
	// Stored is the number of rows that this import enqueued: new ones,
	// corrections and repetitions.
	Stored int `json:"stored"`
	// Fates counts the rows by what became of them.
	Fates map[Fate]int `json:"fates,omitempty"`
	// Resumed is the number of rows that an earlier, interrupted run of the same
	// import finished. Fates includes them.
	Resumed int `json:"resumed,omitempty"`
	// Scheduled counts the rows that this import enqueued and that wait for their time.
	// The first one may be sent from Earliest on, the last one from Latest on.
	Scheduled int       `json:"scheduled,omitempty"`
	Earliest  time.Time `json:"earliest,omitzero"`
	Latest    time.Time `json:"latest,omitzero"`
	// PausedBy says who keeps what waits of the import where it is.
	PausedBy string `json:"paused_by,omitempty"`
	// Invalid is the number of bad rows. Rejects is the file that holds them.
	Invalid int    `json:"invalid,omitempty"`
	Rejects string `json:"rejects,omitempty"`
	// InvalidKinds counts the bad rows by kind, in the order of their first rows. A
	// check that stopped early counted only what it read.
	InvalidKinds []InvalidKind `json:"invalid_kinds,omitempty"`
	// Every says in one line what is wrong with every row that was read; "" = they differ.
	Every string `json:"-"`
	// Bad lists the first bad rows.
	Bad []*RowError `json:"-"`
	// Unended is the line of the last row if that has no line end, which may mean that
	// the file was cut off. 0 = it has one.
	Unended int `json:"unended_line,omitempty"`
	// Warnings counts the warnings (signing rule 12, formulas). Examples lists the
	// first few.
	Warnings int      `json:"warnings"`
	Examples []string `json:"warning_examples,omitempty"`
	// WarningKinds summarises the warnings by kind, in the order of their first rows.
	WarningKinds []WarningKind `json:"warning_kinds,omitempty"`
	// Errors describes the first conflicts and the first failed and forgotten rows.
	Errors []string `json:"errors,omitempty"`
}

// InvalidKind summarises the bad rows of one kind.
type InvalidKind struct {
	Code Code `json:"code"`
	// Rows is the number of these rows. Line is the line of the first.
	Rows int `json:"rows"`
	Line int `json:"line"`
}

// reject counts a bad row.
func (s *Summary) reject(bad *RowError) {
	s.Invalid++
	at := slices.IndexFunc(s.InvalidKinds, func(k InvalidKind) bool { return k.Code == bad.Code })
	if at < 0 {
		at = len(s.InvalidKinds)
		s.InvalidKinds = append(s.InvalidKinds, InvalidKind{Code: bad.Code, Line: bad.Line})
	}
	k := &s.InvalidKinds[at]
	k.Rows, k.Line = k.Rows+1, min(k.Line, bad.Line)
}

// WarningKind summarises the warnings of one kind.
type WarningKind struct {
	Code order.WarningCode `json:"code"`
	// Rows is the number of rows with this warning. Line is the line of the first.
	Rows int `json:"rows"`
	Line int `json:"line"`
	// Fields lists the first fields with this warning.
	Fields     []string `json:"fields"`
	MoreFields bool     `json:"more_fields,omitempty"`

	row int // the last row counted
	// column is the first column with this warning; nil = a constant or a part of a cell
	// has it, or a line of NDJSON.
	column *column
}

const (
	maxExamples = 3
	maxFields   = 5
)

func (s *Summary) warn(t *table, row *Row) {
	s.Warnings += len(row.Warnings)
	for _, w := range row.Warnings {
		s.kind(w.Code, row).add(w.Path, row.Number, t.layout)
		if len(s.Examples) < maxExamples {
			s.Examples = append(s.Examples, fmt.Sprintf("%s: %s", t.place(row.Line), w))
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

func (k *WarningKind) add(field string, row int, l *layout) {
	if k.row != row {
		k.row = row
		k.Rows++
	}
	switch {
	case slices.Contains(k.Fields, field):
	case len(k.Fields) < maxFields:
		if k.Fields = append(k.Fields, field); k.column == nil && l != nil {
			k.column = l.columnOf(field)
		}
	default:
		k.MoreFields = true
	}
}

// describe takes over what the table knows of the file.
func (s *Summary) describe(t *table) {
	s.Blank, s.LeftOut, s.Format, s.Unended = t.blank, t.leftOut, t.format, t.unended()
	s.Encoding = t.text.encoding
	if t.format == FormatXLSX {
		s.Sheet = &Sheet{Name: t.sheet, Notes: t.rows.Notes()}
	}
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

// Counts counts the rows by what became of them, for the journal.
func (s *Summary) Counts() map[string]int {
	counts := make(map[string]int)
	for fate, n := range s.Fates {
		counts[string(fate)] = n
	}
	return counts
}

// BadText lists the rows that were left out, one line each.
func (s *Summary) BadText() string {
	var b strings.Builder
	if s.Every != "" {
		return s.File + ": " + s.Every + "\n"
	}
	for _, row := range s.Bad {
		b.WriteString(row.Error() + "\n")
	}
	if more := s.Invalid - len(s.Bad); more > 0 {
		fmt.Fprintf(&b, "%s: and %d more bad rows\n", s.File, more)
	}
	return b.String()
}

// span says when scheduled orders may be sent.
func span(first, last time.Time) string {
	if first.Equal(last) {
		return first.UTC().Format(time.RFC3339)
	}
	return first.UTC().Format(time.RFC3339) + " to " + last.UTC().Format(time.RFC3339)
}

// Text lists what became of the rows, one line each, for a terminal.
func (s *Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d rows, batch %s\n", s.File, s.Rows, s.Batch)
	if s.Sheet != nil {
		fmt.Fprintf(&b, "         read from the sheet %s\n", s.Sheet.Name)
		for _, said := range s.Sheet.Says() {
			fmt.Fprintf(&b, "         %s\n", said)
		}
	}
	line := func(n int, what string) {
		if n > 0 {
			fmt.Fprintf(&b, "%8d %s\n", n, what)
		}
	}
	for _, fate := range Fates() {
		line(s.Fates[fate], fate.Meaning())
	}
	if n := s.Scheduled; n > 0 {
		fmt.Fprintf(&b, "%8d of these wait for their time: %s\n", n, span(s.Earliest, s.Latest))
	}
	line(s.Resumed, "of these by an earlier run of this import, which was interrupted")
	if s.Rejects != "" {
		fmt.Fprintf(&b, "         the bad rows are in %s: correct and import that\n", s.Rejects)
	}
	line(s.LeftOut, "rows left out, as you said")
	line(s.Blank, "blank rows skipped")
	b.WriteString(s.warnings())
	return b.String()
}

// warnings lists, by kind, what other systems may sign differently or run, and
// what helps.
func (s *Summary) warnings() string {
	var b strings.Builder
	for i := range s.WarningKinds {
		kind := &s.WarningKinds[i]
		what, advice := kind.Meaning(s.Format, true)
		names := strings.Join(kind.Fields, ", ")
		if kind.MoreFields {
			names += ", …"
		}
		fmt.Fprintf(&b, "%8d rows have %s: %s (first in %s %d). %s\n", kind.Rows, what, names, s.Format.Unit(), kind.Line, advice)
	}
	if s.Unended > 0 {
		fmt.Fprintf(&b, "         line %d, the last one, has no line end: see whether the file is complete\n", s.Unended)
	}
	return b.String()
}
