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

// Option is one thing that people can say about an import. Every way in reads the table of [AllOptions]: enqueue for its flags,
// folders for the lines of theirs, the HTTP API for its parameters, and the console for the fields of its forms.
type Option struct {
	Name string
	// Help is the help of enqueue's flag, and Default what that is without a value; its type is the flag's. A switch is a
	// bool, and a []string may be said several times.
	Help    string
	Default any
	// Values are those that a shell completes; nil = none.
	Values []string
	// Filled says that an empty value is a mistake, such as that of a script whose variable is not set.
	Filled bool
	// Local says that the HTTP API has no parameter for it.
	Local bool

	set func(c *Choices, value string) error
}

// IsSwitch reports whether an option is on or off, and needs no value.
func (o *Option) IsSwitch() bool { _, is := o.Default.(bool); return is }

var allOptions = []Option{
	{Name: "format", Default: string(FormatAuto), Values: []string{"auto", "csv", "ndjson", "xlsx"}, Local: true, Help: "csv, ndjson, xlsx, or auto: by the content",
		set: func(c *Choices, value string) error {
			if !slices.Contains(Formats(), Format(value)) {
				return fmt.Errorf("%q is none of csv, ndjson, xlsx, auto", clip(value))
			}
			if c.Format = Format(value); c.Format == FormatAuto {
				c.Format = ""
			}
			return nil
		}},
	{Name: "sheet", Default: "", Filled: true, Help: "the sheet of a workbook (default: the only one with content)",
		set: word(func(c *Choices) *string { return &c.Sheet }, nil)},
	{Name: "header-row", Default: 0, Help: "the row that names the columns; what is above it is left out (default: the first with content)",
		set: count(func(c *Choices) *int { return &c.HeaderRow }, 1, "the number of a row from 1 on")},
	{Name: "skip-rows", Default: []string(nil), Help: "rows to leave out, by the numbers in messages, as in 27,30-32 (repeatable)",
		set: func(c *Choices, value string) error {
			_, err := parseSpans(value)
			if err == nil {
				c.SkipRows = strings.TrimPrefix(c.SkipRows+","+value, ",")
			}
			return err
		}},
	{Name: "encoding", Default: EncodingAuto, Values: Encodings(), Help: strings.Join(Encodings(), ", "),
		set: func(c *Choices, value string) error {
			if !slices.Contains(Encodings(), value) {
				return fmt.Errorf("%q is none of %s", clip(value), strings.Join(Encodings(), ", "))
			}
			if c.Encoding = value; value == EncodingAuto {
				c.Encoding = ""
			}
			return nil
		}},
	{Name: "delimiter", Default: "", Help: "one character, or tab (default: detected)",
		set: word(func(c *Choices) *string { return &c.Delimiter }, func(value string) error { _, err := parseDelimiter(value); return err })},
	{Name: "type", Default: []string(nil), Help: "NAME=int|number|bool|json|string: the type of a field (repeatable)",
		set: named("NAME=TYPE", func(m *Mapping, name, value string) { put(&m.Types, name, Type(value)) })},
	{Name: "rename", Default: []string(nil), Help: "COLUMN=NAME: the field's name of a column (repeatable)",
		set: named("COLUMN=NAME", func(m *Mapping, name, value string) { put(&m.Rename, name, value) })},
	{Name: "leave-out", Default: []string(nil), Help: "a column that is not sent; '' names those without a name (repeatable)",
		set: func(c *Choices, value string) error {
			c.Mapping.LeaveOut = append(c.Mapping.LeaveOut, value)
			return nil
		}},
	{Name: "set", Default: []string(nil), Help: "NAME=VALUE or NAME:TYPE=VALUE: a field that every order has (repeatable)",
		set: named("NAME=VALUE", func(m *Mapping, name, value string) { put(&m.Set, name, value) })},
	{Name: "empty", Default: "", Values: []string{EmptyString, EmptyOmit, EmptyNull}, Help: "empty cells become: string (the default), omit, null",
		set: word(func(c *Choices) *string { return &c.Mapping.Empty }, nil)},
	{Name: "order-no-template", Default: "", Filled: true, Help: "order numbers for a file without them, from {batch} and {row}",
		set: word(func(c *Choices) *string { return &c.Mapping.OrderNoTemplate }, nil)},
	{Name: "accept", Default: []string(nil), Help: "NAME=CODE: the answer to what the check asks about cells of a field, as in price=decimal_comma (repeatable)",
		set: named("NAME=CODE", func(m *Mapping, name, value string) { put(&m.Accept, name, append(m.Accept[name], Code(value))) })},
	{Name: "trailer", Default: "", Help: "how the file's last record is known, and where its totals stand, as in '{value: T, rows: 2, sums: {amount: 3}}'",
		set: func(c *Choices, value string) (err error) { c.Mapping.Trailer, err = parseTrailer(value); return err }},
	{Name: "skip-invalid", Default: false, Local: true, Help: "enqueue the good rows; the bad ones go to FILE.rejects.csv (or .xlsx)",
		set: onOff(func(c *Choices) *bool { return &c.SkipInvalid })},
	{Name: "max-errors", Default: DefaultMaxErrors, Local: true, Help: "how many bad rows are listed",
		set: count(func(c *Choices) *int { return &c.MaxErrors }, 1, "a number of rows from 1 on")},
	{Name: "retry-failed", Default: false, Help: "enqueue unchanged orders again that certainly were not created",
		set: onOff(func(c *Choices) *bool { return &c.RetryFailed })},
	{Name: "batch", Default: "", Help: "name of the import (default: a hash of content and mapping)",
		set: word(func(c *Choices) *string { return &c.Batch }, CheckBatch)},
	{Name: "deadline", Default: "", Filled: true, Help: "RFC 3339 time after which the orders are not sent any more",
		set: func(c *Choices, value string) (err error) {
			if c.Deadline, err = time.Parse(time.RFC3339, value); err != nil {
				return fmt.Errorf("%q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", clip(value))
			}
			return nil
		}},
	{Name: "not-before", Default: "", Filled: true, Help: "RFC 3339 time before which the orders are not sent; a column _not_before has a row's own",
		set: (*Choices).setNotBefore},
	{Name: "allow-past", Default: false, Help: "take a --not-before or a row's _not_before that is over: such orders are sent at once",
		set: onOff(func(c *Choices) *bool { return &c.AllowPast })},
	{Name: "lane", Default: order.BulkLane, Filled: true, Help: "lane of the waiting room; lanes take turns by their weights",
		set: word(func(c *Choices) *string { return &c.Lane }, order.CheckLane)},
	{Name: "direct", Default: false, Help: "leave out the waiting room: orders that come later wait behind all of these",
		set: onOff(func(c *Choices) *bool { return &c.Direct })},
	{Name: "rate", Default: 0.0, Help: "orders enqueued per second at most (default: no limit)",
		set: func(c *Choices, value string) (err error) {
			if c.Rate, err = strconv.ParseFloat(value, 64); err != nil {
				return fmt.Errorf("%q is not a number of orders a second, such as 50", clip(value))
			}
			return order.CheckRate(c.Rate)
		}},
	{Name: "canary", Default: 0, Help: "enqueue this many orders first, and the rest once all of them are accepted",
		set: count(func(c *Choices) *int { return &c.Canary }, 0, "a number of orders")},
	{Name: "expect-rows", Default: 0, Help: "refuse the file unless it has this many orders to send",
		set: count(func(c *Choices) *int { c.Expect.Rows = new(int); return c.Expect.Rows }, 0, "a number of orders")},
	{Name: "expect-sum", Default: []string(nil), Help: "NAME=NUMBER: refuse the file unless a field adds up to exactly this (repeatable)",
		set: func(c *Choices, value string) error { return c.Expect.addSum(value) }},
}

// word takes a text that check finds right; nil = any is.
func word(at func(*Choices) *string, check func(string) error) func(*Choices, string) error {
	return func(c *Choices, value string) error {
		*at(c) = value
		if check == nil {
			return nil
		}
		return check(value)
	}
}

// count takes a whole number from least on.
func count(at func(*Choices) *int, least int, what string) func(*Choices, string) error {
	return func(c *Choices, value string) (err error) {
		n := at(c)
		if *n, err = strconv.Atoi(value); err != nil || *n < least {
			return fmt.Errorf("%q is not %s", clip(value), what)
		}
		return nil
	}
}

// onOff takes a switch. Without a value it is on.
func onOff(at func(*Choices) *bool) func(*Choices, string) error {
	return func(c *Choices, value string) (err error) {
		if *at(c), err = strconv.ParseBool(cmp.Or(value, "true")); err != nil {
			return fmt.Errorf("%q is neither true nor false", clip(value))
		}
		return nil
	}
}

// named takes what is said of one name.
func named(form string, put func(m *Mapping, name, value string)) func(*Choices, string) error {
	return func(c *Choices, said string) error {
		name, value, found := strings.Cut(said, "=")
		if !found || name == "" {
			return fmt.Errorf("%q is not %s", clip(said), form)
		}
		put(&c.Mapping, name, value)
		return nil
	}
}

// AllOptions returns the options in the order of enqueue's help.
func AllOptions() []Option { return allOptions }

// OptionOf returns the option of a name; nil = there is none.
func OptionOf(name string) *Option {
	if i := slices.IndexFunc(allOptions, func(o Option) bool { return o.Name == name }); i >= 0 {
		return &allOptions[i]
	}
	return nil
}

// Set takes an option by its name. One that may be said several times adds to what was said;
// type, rename, set and accept name a field. A switch without a value is on. Error:
// *[OptionError].
func (c *Choices) Set(name, value string) error {
	o, err := OptionOf(name), errors.New("there is no such option")
	if o != nil {
		err = o.set(c, value)
	}
	if err != nil {
		return c.wrong(name, err.Error(), "")
	}
	return nil
}

func (c *Choices) wrong(name, seen, do string) *OptionError {
	return &OptionError{Name: c.Prefix + name, Seen: seen, Do: do}
}

// ReadMapping takes a mapping file. What was said goes before it.
func (c *Choices) ReadMapping(name string, r io.Reader) error {
	file, err := ReadMapping(name, r)
	c.Mapping = file.Merge(c.Mapping)
	return err
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
