package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the container image has no zones

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// Reading says how a file is read, and what its import is called. The zero value reads a file
// as enqueue does without flags.
type Reading struct {
	Mapping   Mapping `json:"mapping,omitzero"`
	Format    Format  `json:"format,omitempty"`    // empty = by the content
	Encoding  string  `json:"encoding,omitempty"`  // empty = by the content
	Delimiter string  `json:"delimiter,omitempty"` // one character, or tab; empty = detected
	Sheet     string  `json:"sheet,omitempty"`     // of a workbook; empty = the only one with content
	// HeaderRow is the line, or the row of a sheet, that names the columns; 0 = the first
	// with content. What is above it is left out.
	HeaderRow int `json:"header_row,omitempty"`
	// SkipRows are rows that are left out, by the numbers that messages give them, as in
	// 27,30-32.
	SkipRows string `json:"skip_rows,omitempty"`
	// Edits are the cells that a person corrected, at most [MaxEdits].
	Edits []Edit `json:"edits,omitempty"`
	// Batch names the import; empty = BatchPrefix, and the beginning of the fingerprint.
	Batch       string `json:"batch,omitempty"`
	BatchPrefix string `json:"batch_prefix,omitempty"`
	// AllowPast takes times that are over: such orders are sent at once.
	AllowPast bool `json:"allow_past,omitempty"`
}

// Sending says which rows of a file are sent, and when.
type Sending struct {
	// SkipInvalid imports the good rows of a file that has bad ones.
	SkipInvalid bool `json:"skip_invalid,omitempty"`
	// RetryFailed enqueues orders again that certainly failed before, and orders of a
	// cancelled import.
	RetryFailed bool `json:"retry_failed,omitempty"`
	// Deadline of every order; zero = none.
	Deadline time.Time `json:"deadline,omitzero"`
	// NotBefore is the time before which no order is sent, unless the column _not_before
	// has the row's own; zero = none.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Rate limits the orders enqueued per second; 0 = no limit.
	Rate float64 `json:"rate,omitempty"`
	// Lane is the lane of the waiting room in which the orders wait for their turn; empty =
	// bulk. Direct leaves the room out, as an import does where no worker feeds the queue
	// from it.
	Lane   string `json:"lane,omitempty"`
	Direct bool   `json:"direct,omitempty"`
	// Canary is how many orders go first; the rest follows once all of them are accepted.
	// 0 = all go at once.
	Canary int `json:"canary,omitempty"`
	// Expect are control totals: an import that has others is refused.
	Expect Totals `json:"expect,omitzero"`
}

// Options say how to read and import a file.
type Options struct {
	Reading
	Sending
	// File names the source in messages and in Order-Source.
	File string
	// Path is the file's path, for reading it again later. It is empty for standard
	// input.
	Path string
	// Temp is the folder for what a workbook needs on disk while it is read; empty = the
	// system's.
	Temp string
	// Past is the moment at which a row's own time must not be long over; zero = it may
	// be. It is one moment for all passes over the file, so that they agree.
	Past time.Time
	// MaxErrors is how many bad rows to list; 0 means [DefaultMaxErrors].
	MaxErrors int
	// FullWait is how long an import waits at a full queue while no order is
	// settled; 0 means [DefaultFullWait].
	FullWait time.Duration
	// Progress is called after each chunk with the number of rows done. It may be
	// nil.
	Progress func(rows int)
	// Begun is called once the batch is known to be this file's, before an order is stored.
	// Its error ends the import. It may be nil.
	Begun func(context.Context) error
	// By names the person who imports, for the batch's record. It may be empty.
	By string
	// Schema is what every order must fulfil; nil = none. Open pins it: all passes over
	// the file agree.
	Schema *schema.Schema
	// Trace returns the W3C trace header of a new intent, which stream takes. It may be nil.
	Trace func(orderNo, intentID, stream string) string
}

// DefaultMaxErrors is the default of Options.MaxErrors.
const DefaultMaxErrors = 20

// PastAt returns Options.Past for an import that is judged by a moment.
func (r *Reading) PastAt(now time.Time) time.Time {
	if r.AllowPast {
		return time.Time{}
	}
	return now
}

// Choices are what somebody says about an import, option by option: flags of enqueue,
// parameters of the HTTP door, fields of the console's form, lines of a folder's flags.
type Choices struct {
	Reading
	Sending
	MaxErrors int
	// Now is the moment by which times are judged. Daily permits a not-before without a
	// date, for files that come every day.
	Now   time.Time
	Daily bool
	// Prefix stands before the names of options in messages, as in "--".
	Prefix string

	notBefore string // as it was said
}

// OptionError says what is wrong with an option.
type OptionError struct {
	Name string
	// Seen is what was found, Do what to do about it. Do may be empty.
	Seen, Do string
}

// Error returns name, problem and advice in one line.
func (e *OptionError) Error() string {
	if e.Do == "" {
		return e.Name + ": " + e.Seen
	}
	return e.Name + ": " + e.Seen + "; " + e.Do
}

// OptionNames returns the names of the options, which are those of enqueue's flags.
func OptionNames() []string {
	return []string{"format", "sheet", "header-row", "skip-rows", "encoding", "delimiter", "type", "rename", "leave-out", "set", "empty", "order-no-template", "accept", "trailer", "skip-invalid", "max-errors", "retry-failed",
		"batch", "deadline", "not-before", "allow-past", "lane", "direct", "rate", "canary", "expect-rows", "expect-sum"}
}

// IsSwitch reports whether an option is on or off, and needs no value.
func IsSwitch(name string) bool {
	return slices.Contains([]string{"skip-invalid", "retry-failed", "direct", "allow-past"}, name)
}

// Set takes an option by its name. One that may be said several times adds to what was said;
// type, rename, set and accept name a field. A switch without a value is on. Error:
// *[OptionError].
func (c *Choices) Set(name, value string) error {
	if err := c.set(name, value); err != nil {
		return c.wrong(name, err.Error(), "")
	}
	return nil
}

func (c *Choices) wrong(name, seen, do string) *OptionError {
	return &OptionError{Name: c.Prefix + name, Seen: seen, Do: do}
}

func (c *Choices) set(name, value string) (err error) {
	switch name {
	case "format":
		if !slices.Contains(Formats(), Format(value)) {
			return fmt.Errorf("%q is none of csv, ndjson, xlsx, auto", clip(value))
		}
		if c.Format = Format(value); c.Format == FormatAuto {
			c.Format = ""
		}
	case "encoding":
		if !slices.Contains(Encodings(), value) {
			return fmt.Errorf("%q is none of %s", clip(value), strings.Join(Encodings(), ", "))
		}
		if c.Encoding = value; value == EncodingAuto {
			c.Encoding = ""
		}
	case "delimiter":
		c.Delimiter = value
		_, err = ParseDelimiter(value)
	case "sheet":
		c.Sheet = value
	case "header-row":
		if c.HeaderRow, err = strconv.Atoi(value); err != nil || c.HeaderRow < 1 {
			return fmt.Errorf("%q is not the number of a row from 1 on", clip(value))
		}
	case "skip-rows":
		if _, err = parseSpans(value); err == nil {
			c.SkipRows = strings.TrimPrefix(c.SkipRows+","+value, ",")
		}
	case "leave-out":
		c.Mapping.LeaveOut = append(c.Mapping.LeaveOut, value)
	case "type", "rename", "set", "accept":
		err = c.Mapping.add(name, value)
	case "empty":
		c.Mapping.Empty = value
	case "order-no-template":
		c.Mapping.OrderNoTemplate = value
	case "trailer":
		c.Mapping.Trailer, err = ParseTrailer(value)
	case "batch":
		c.Batch, err = value, CheckBatch(value)
	case "deadline":
		if c.Deadline, err = time.Parse(time.RFC3339, value); err != nil {
			return fmt.Errorf("%q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", clip(value))
		}
	case "not-before":
		err = c.setNotBefore(value)
	case "lane":
		c.Lane, err = value, order.CheckLane(value)
	case "rate":
		if c.Rate, err = strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("%q is not a number of orders a second, such as 50", clip(value))
		}
		err = order.CheckRate(c.Rate)
	case "max-errors":
		if c.MaxErrors, err = strconv.Atoi(value); err != nil || c.MaxErrors < 1 {
			return fmt.Errorf("%q is not a number of rows from 1 on", clip(value))
		}
	case "canary":
		if c.Canary, err = strconv.Atoi(value); err != nil || c.Canary < 0 {
			return fmt.Errorf("%q is not a number of orders", clip(value))
		}
	case "expect-rows":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a number of orders", clip(value))
		}
		c.Expect.Rows = &n
	case "expect-sum":
		return c.Expect.addSum(value)
	case "skip-invalid":
		c.SkipInvalid, err = isOn(value)
	case "retry-failed":
		c.RetryFailed, err = isOn(value)
	case "direct":
		c.Direct, err = isOn(value)
	case "allow-past":
		c.AllowPast, err = isOn(value)
	default:
		return errors.New("there is no such option")
	}
	return err
}

// rowSpan is a run of rows.
type rowSpan struct{ from, to int }

// parseSpans reads rows such as 27,30-32.
func parseSpans(text string) (all []rowSpan, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		one := rowSpan{}
		var wrong error
		one.from, err = strconv.Atoi(from)
		one.to, wrong = strconv.Atoi(to)
		if err != nil || wrong != nil || one.from < 1 || one.to < one.from {
			return nil, fmt.Errorf("%q is no list of rows such as 27,30-32", clip(text))
		}
		all = append(all, one)
	}
	return all, nil
}

// skips returns the rows that are left out.
func (r *Reading) skips() []rowSpan {
	all, _ := parseSpans(r.SkipRows) // Set has read it; none are no list, either
	return all
}

// ReadMapping takes a mapping file. What was said goes before it.
func (c *Choices) ReadMapping(name string, r io.Reader) error {
	file, err := ReadMapping(name, r)
	c.Mapping = file.Merge(c.Mapping)
	return err
}

// isOn reads a switch.
func isOn(value string) (bool, error) {
	if value == "" {
		return true, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", clip(value))
	}
	return on, nil
}

func (c *Choices) setNotBefore(value string) (err error) {
	c.notBefore = value
	if c.Daily {
		at, daily, err := nextTime(value, c.Now)
		if c.NotBefore = at; daily {
			return err
		}
	}
	c.NotBefore, err = order.ParseNotBefore(value, c.Now)
	return err
}

// Check judges what was said as a whole. Its error names every mistake: each is an
// *[OptionError], or about the mapping.
func (c *Choices) Check() error {
	errs := []error{c.Mapping.Validate()}
	if c.Direct && (!c.NotBefore.IsZero() || cmp.Or(c.Lane, order.BulkLane) != order.BulkLane) {
		errs = append(errs, c.wrong("direct", fmt.Sprintf("leaves out the waiting room, in which %[1]slane and %[1]snot-before count", c.Prefix), ""))
	}
	if order.LongPast(c.NotBefore, c.Now) && !c.AllowPast {
		do := "leave it out if the orders are to be sent at once, or say " + c.Prefix + "allow-past"
		if c.Daily {
			do = "write a time of day, such as 08:00 Europe/Berlin, or say " + c.Prefix + "allow-past"
		}
		errs = append(errs, c.wrong("not-before", fmt.Sprintf("%s was %s ago", clip(c.notBefore), c.Now.Sub(c.NotBefore).Round(time.Second)), do))
	}
	return errors.Join(errs...)
}

// CheckDeadline refuses a deadline that no order can meet. Error: *[OptionError].
func (c *Choices) CheckDeadline() error {
	if missed := order.MissedDeadline(c.Deadline, c.NotBefore, c.Now); missed != "" {
		return c.wrong("deadline", missed, "give a later time, or leave it out")
	}
	return nil
}

// Options returns the options of an import by these choices.
func (c *Choices) Options() Options {
	return Options{Reading: c.Reading, Sending: c.Sending, MaxErrors: c.MaxErrors, Past: c.PastAt(c.Now)}
}

// nextTime returns the first moment after now at which the clocks of a place show a time of day,
// such as 08:00 Europe/Berlin. daily is false if text is none. A time that the clocks skip in spring comes
// an hour later.
func nextTime(text string, now time.Time) (at time.Time, daily bool, err error) {
	clock, zone, _ := strings.Cut(text, " ")
	day, err := time.Parse("15:04", clock)
	if err != nil {
		return at, false, nil
	}
	if zone = strings.TrimSpace(zone); zone == "" {
		return at, true, fmt.Errorf("%q does not say where; write the zone behind it, such as %s Europe/Berlin or %s UTC", clip(text), clock, clock)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return at, true, fmt.Errorf("%q: %w; write a zone such as Europe/Berlin or UTC", clip(text), err)
	}
	today := now.In(place)
	for days := 0; !at.After(now); days++ {
		at = time.Date(today.Year(), today.Month(), today.Day()+days, day.Hour(), day.Minute(), 0, 0, place)
	}
	return at.UTC(), true, nil
}
