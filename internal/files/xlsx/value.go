package xlsx

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind says what is stored in a cell.
type Kind uint8

// The kinds of cells.
const (
	Empty Kind = iota
	Text
	// Number is a number of at most 15 digits, as many as a spreadsheet keeps.
	Number
	// LongNumber is a whole number of more digits. The last ones may be lost.
	LongNumber
	// Date is a date, a time or both, which are numbers with a format.
	Date
	// Bool is TRUE or FALSE.
	Bool
	// Error is an error value such as #N/A.
	Error
	// Uncalculated is a formula whose value is not stored, or is stored from before the
	// workbook's last change.
	Uncalculated
	// Signed is a number that the sheet shows with signs that are no part of it, as in
	// 012-34-5678: they are in the format.
	Signed

	padded // + digits: see Padded; and mostDigits+1 more if the format adds more than zeros
)

// mostDigits is how many digits of a padded number are told apart.
const mostDigits = 20

// Padded returns the kind of a number that the sheet shows with zeros in front, with so
// many digits in all. The zeros are in the format, and not in the number.
func Padded(digits int) Kind { return padded + Kind(min(digits, mostDigits)) }

// digits returns how many digits the sheet shows of a padded number.
func (k Kind) digits() int {
	n := int(k - padded)
	if n > mostDigits {
		n -= mostDigits + 1
	}
	return n
}

// ShowsZeros reports whether the sheet shows a number with zeros in front, and nothing else.
func (k Kind) ShowsZeros() bool { return k.IsPadded() && k <= padded+mostDigits }

// Shown returns a number as the sheet shows it, if the zeros are all that it adds, or else as it is stored.
func (k Kind) Shown(stored string) string {
	if !k.ShowsZeros() {
		return stored
	}
	return strings.Repeat("0", max(k.digits()-len(stored), 0)) + stored
}

// IsPadded reports whether the kind is of Padded.
func (k Kind) IsPadded() bool { return k >= padded }

// IsNumber reports whether the cell holds a number that is no date.
func (k Kind) IsNumber() bool { return k == Number || k == LongNumber || k == Signed || k.IsPadded() }

// spreadsheetDigits is the number of digits that a spreadsheet keeps.
const spreadsheetDigits = 15

// appendNumber appends a stored number as a person reads it, with a decimal point: stored
// are 17 digits (1.1 as 1.1000000000000001), of which a spreadsheet shows 15.
func appendNumber(dst, stored []byte) ([]byte, Kind, error) {
	if len(stored) <= spreadsheetDigits && isDigits(stored) && (stored[0] != '0' || len(stored) == 1) {
		return append(dst, stored...), Number, nil
	}
	f, err := readNumber(stored)
	if err != nil {
		return dst, 0, err
	}
	if f == 0 {
		return append(dst, '0'), Number, nil
	}
	size := math.Abs(f)
	if size >= 1e15 {
		if size >= 1e21 {
			return strconv.AppendFloat(dst, f, 'g', -1, 64), LongNumber, nil
		}
		return strconv.AppendFloat(dst, f, 'f', -1, 64), LongNumber, nil
	}
	var short [32]byte
	f, _ = strconv.ParseFloat(string(strconv.AppendFloat(short[:0], f, 'e', spreadsheetDigits-1, 64)), 64) // it was just written
	if size < 1e-7 {
		return strconv.AppendFloat(dst, f, 'e', -1, 64), Number, nil
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64), Number, nil
}

func isDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

func readNumber(stored []byte) (float64, error) {
	for _, c := range stored { // no "Inf", no "0x1p-2", no "1_000"
		if c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9') {
			return 0, fmt.Errorf("has %q where a number should be", clip(stored))
		}
	}
	f, err := strconv.ParseFloat(string(stored), 64)
	if err != nil {
		return 0, fmt.Errorf("has %q where a number should be", clip(stored))
	}
	return f, nil
}

func clip(text []byte) string {
	if len(text) > 40 {
		return string(text[:40]) + "…"
	}
	return string(text)
}

// lastDay is 9999-12-31, behind which spreadsheets have no dates.
const lastDay = 2958466

// The forms of dates.
const (
	dateLayout     = "2006-01-02"
	dateTimeLayout = "2006-01-02T15:04:05"
	timeLayout     = "15:04:05"
	millisLayout   = ".000" // behind a time that has them
)

// appendDate appends a stored date as ISO 8601: a date, a time of the first day, or both. A
// number that is no date is what a spreadsheet shows then.
func appendDate(dst, stored []byte, date1904 bool) ([]byte, Kind, error) {
	f, err := readNumber(stored)
	if err != nil {
		return dst, 0, err
	}
	if f < 0 || f >= lastDay {
		return append(dst, "########"...), Error, nil
	}
	days, fraction := math.Modf(f)
	millis := math.Round(fraction * 24 * 60 * 60 * 1000)
	if millis == 24*60*60*1000 {
		days, millis = days+1, 0
	}
	epoch := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if date1904 {
		epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if days < 60 {
		epoch = epoch.AddDate(0, 0, 1) // 1900 has a 29th of February in spreadsheets, day 60
	}
	at := epoch.AddDate(0, 0, int(days)).Add(time.Duration(millis) * time.Millisecond)
	layout := dateLayout
	switch {
	case days < 1:
		layout = timeLayout
	case millis > 0:
		layout = dateTimeLayout
	}
	if at.Nanosecond() > 0 {
		layout += millisLayout
	}
	if days == 60 && !date1904 {
		return at.AppendFormat(append(dst, "1900-02-29"...), layout[len(dateLayout):]), Date, nil
	}
	return at.AppendFormat(dst, layout), Date, nil
}

// appendISODate appends a date that is stored as ISO 8601 in the form that appendDate gives
// to the same date. Results store it as a number, and a cell that reads differently then
// would be another order. What has another form stays as it is.
func appendISODate(dst, stored []byte) []byte {
	at, layout, ok := readDate(string(stored))
	if !ok {
		return append(dst, stored...)
	}
	at = at.Truncate(time.Millisecond)
	if layout == dateTimeLayout && at.Equal(at.Truncate(24*time.Hour)) {
		layout = dateLayout
	}
	if at.Nanosecond() > 0 {
		layout += millisLayout
	}
	return at.AppendFormat(dst, layout)
}

// readDate reads a date in one of the forms of appendDate, with any fraction of a second.
func readDate(text string) (at time.Time, layout string, ok bool) {
	for _, layout := range []string{dateLayout, dateTimeLayout, timeLayout} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, layout, true
		}
	}
	return at, "", false
}

// serial returns the number of a date that appendDate wrote, by the calendar from 1900.
func serial(text string) (float64, error) {
	at, layout, ok := readDate(text)
	switch {
	case ok && layout == timeLayout:
		return at.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)).Hours() / 24, nil
	case ok:
		epoch := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
		n := (float64(at.Unix()-epoch.Unix()) + float64(at.Nanosecond())/1e9) / (24 * 60 * 60)
		if n < 61 {
			n--
		}
		if n >= 1 {
			return n, nil
		}
	}
	return 0, errors.New("no date that a spreadsheet can store")
}

// unescapeCharacters replaces _x000D_ and its like, from a position on: characters that XML
// cannot hold, and underscores that would read like that (ISO/IEC 29500-1, 22.9.2.19).
func unescapeCharacters(text []byte, from int) []byte {
	i := bytes.Index(text[from:], []byte("_x"))
	if i < 0 {
		return text
	}
	out := text[:from+i]
	for rest := text[from+i:]; len(rest) > 0; {
		if r, ok := escapedCharacter(rest); ok {
			out, rest = utf8.AppendRune(out, r), rest[7:] // never longer than what it replaces
			continue
		}
		out, rest = append(out, rest[0]), rest[1:]
	}
	return out
}

// escapedCharacter reads _xHHHH_.
func escapedCharacter(text []byte) (rune, bool) {
	if len(text) < 7 || text[0] != '_' || text[1] != 'x' || text[6] != '_' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil && utf8.ValidRune(rune(n))
}
