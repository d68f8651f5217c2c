package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"orderpost/internal/fleet/imports"
)

// Totals are what somebody expects of the orders of a file, so that one that lost or gained a row on its way is noticed.
// They are about what would be sent: not about rows that are bad, or left out.
type Totals struct {
	// Rows is the number of orders; nil = any.
	Rows *int `json:"rows,omitempty"`
	// Sums are exact sums by the names of fields.
	Sums map[string]decimal.Decimal `json:"sums,omitempty"`
}

// addSum reads a sum, as in amount=1234.56.
func (t *Totals) addSum(text string) error {
	name, value, found := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !found || name == "" {
		return fmt.Errorf("%q is not NAME=NUMBER, as in amount=1234.56", clip(text))
	}
	sum, ok := imports.Number(strings.TrimSpace(value))
	if !ok {
		return fmt.Errorf("%s: %q is not a number such as 1234.56", clip(name), clip(value))
	}
	if _, twice := t.Sums[name]; twice {
		return fmt.Errorf("%s has two sums", clip(name))
	}
	sums := maps.Clone(t.Sums) // others may have the former
	if sums == nil {
		sums = make(map[string]decimal.Decimal)
	}
	sums[name] = sum
	t.Sums = sums
	return nil
}

// WrongTotals is the error of a file that has other totals than those that were expected.
type WrongTotals struct{ error }

// Unwrap returns the reason.
func (e *WrongTotals) Unwrap() error { return e.error }

// checkTotals compares a checked file with what is expected of it, and with its trailer. Error: *[WrongTotals].
func (f *File) checkTotals(ctx context.Context, s *Summary, trailer *foundTrailer) error {
	wrong, err := f.otherTotals(ctx, s, f.o.Expect)
	switch {
	case err != nil:
		return err
	case wrong != "":
		return &WrongTotals{fmt.Errorf("%s: %w", f.o.File, advise(wrong, " (--expect-rows, --expect-sum); nothing was stored"))}
	case trailer == nil:
		return nil
	}
	if wrong, err = f.otherTotals(ctx, s, trailer.Totals); err != nil || wrong == "" {
		return err
	}
	if s.Invalid > 0 {
		wrong += fmt.Sprintf(" (bad rows: %d)", s.Invalid)
	}
	return &WrongTotals{fmt.Errorf("%s: by the trailer, the file is not whole: %s; nothing was stored: get the file again", f.head.place(trailer.line), wrong)}
}

// otherTotals says what a checked file has instead of what is expected of it; "" = the same. It reads the rows again if
// sums are expected.
func (f *File) otherTotals(ctx context.Context, s *Summary, expect Totals) (string, error) {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	orders := s.Rows - s.Invalid
	if expect.Rows != nil && *expect.Rows != orders {
		say("orders to send: %d, and %d were expected", orders, *expect.Rows)
	}
	if len(expect.Sums) > 0 {
		names := slices.Sorted(maps.Keys(expect.Sums))
		sums := imports.NewSums(names...)
		if err := f.Each(ctx, func(row *Row, bad *RowError) error {
			if bad == nil {
				sums.Add(row.Order.Canonical(), nil)
			}
			return nil
		}); err != nil {
			return "", err
		}
		columns, _ := sums.Columns(orders)
		for _, name := range names {
			var sum decimal.Decimal
			at := slices.IndexFunc(columns, func(c *imports.Column) bool { return c.Name == name })
			if at >= 0 {
				sum = columns[at].Sum
			}
			switch want := expect.Sums[name]; {
			case at < 0 && orders > 0:
				say("no order has a number as its %s, whose sum was expected to be %s", clip(name), want)
			case !sum.Equal(want):
				say("the sum of %s is %s, and %s was expected", clip(name), sum, want)
			}
		}
	}
	return strings.Join(wrong, "; "), nil
}
