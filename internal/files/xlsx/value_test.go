package xlsx

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNumbers: a number reads as a spreadsheet shows it without a format.
func TestNumbers(t *testing.T) {
	for stored, want := range map[string]struct {
		text string
		kind Kind
	}{
		"30":                   {"30", Number},
		"0":                    {"0", Number},
		"-0":                   {"0", Number},
		"007":                  {"7", Number},
		"-12.50":               {"-12.5", Number},
		"1.1000000000000001":   {"1.1", Number},
		"0.30000000000000004":  {"0.3", Number},
		"45000.000000000007":   {"45000", Number},
		"1E3":                  {"1000", Number},
		"123456789012345":      {"123456789012345", Number},
		"1234567890123456":     {"1234567890123456", LongNumber},
		"1.23456789012345E+19": {"12345678901234500000", LongNumber},
		"1E+25":                {"1e+25", LongNumber},
		"1.5E-9":               {"1.5e-09", Number},
	} {
		text, kind, err := appendNumber(nil, []byte(stored))
		require.NoError(t, err, stored)
		require.Equal(t, want.text, string(text), stored)
		require.Equal(t, want.kind, kind, stored)
	}
	for _, stored := range []string{"", "x", "Inf", "NaN", "0x10", "1_000", "1e400", "1,5", " 1"} {
		_, _, err := appendNumber(nil, []byte(stored))
		require.ErrorContains(t, err, "where a number should be", stored)
	}
}

// TestDates: days are counted from 1900, when spreadsheets have a 29th of February, or from
// 1904. What a date becomes can be stored again.
func TestDates(t *testing.T) {
	for stored, want := range map[string]string{
		"1":                  "1900-01-01",
		"59":                 "1900-02-28",
		"60":                 "1900-02-29",
		"60.5":               "1900-02-29T12:00:00",
		"61":                 "1900-03-01",
		"46387":              "2026-12-31",
		"46387.5":            "2026-12-31T12:00:00",
		"46387.999999999":    "2027-01-01",
		"46387.000011574074": "2026-12-31T00:00:01",
		"46387.0000057870":   "2026-12-31T00:00:00.500",
		"0.25":               "06:00:00",
		"2958465":            "9999-12-31",
	} {
		text, kind, err := appendDate(nil, []byte(stored), false)
		require.NoError(t, err, stored)
		require.Equal(t, Date, kind)
		require.Equal(t, want, string(text), stored)
		if strings.HasPrefix(stored, "60") {
			continue
		}
		again, err := serial(string(text))
		require.NoError(t, err, stored)
		n, err := readNumber([]byte(stored))
		require.NoError(t, err)
		require.InDelta(t, n, again, 0.001/24/60/60, stored)
	}
	text, _, err := appendDate(nil, []byte("0"), true)
	require.NoError(t, err)
	require.Equal(t, "00:00:00", string(text))
	text, _, err = appendDate(nil, []byte("44925"), true)
	require.NoError(t, err)
	require.Equal(t, "2026-12-31", string(text))
	for _, stored := range []string{"-1", "2958466", "1e300"} {
		text, kind, err := appendDate(nil, []byte(stored), false)
		require.NoError(t, err)
		require.Equal(t, Error, kind)
		require.Equal(t, "########", string(text))
	}
}

// TestISODates: a date that is stored as text reads as the same date that is stored as a
// number, also after a writer made a number of it.
func TestISODates(t *testing.T) {
	for stored, want := range map[string]string{
		"2026-01-02":                  "2026-01-02",
		"2026-01-02T00:00:00":         "2026-01-02",
		"2026-01-02T00:00:00.000":     "2026-01-02",
		"2026-01-02T18:30:00":         "2026-01-02T18:30:00",
		"2026-01-02T18:30:00.5":       "2026-01-02T18:30:00.500",
		"2026-01-02T00:00:00.0004999": "2026-01-02",
		"18:30:00":                    "18:30:00",
		"00:00:00.000":                "00:00:00",
		"23:59:59.9999":               "23:59:59.999",
		"1900-01-01T00:00:00":         "1900-01-01",
	} {
		got := appendISODate(nil, []byte(stored))
		require.Equal(t, want, string(got), stored)
		n, err := serial(string(got))
		require.NoError(t, err, stored)
		again, _, err := appendDate(nil, strconv.AppendFloat(nil, n, 'f', -1, 64), false)
		require.NoError(t, err)
		require.Equal(t, want, string(again), stored)
	}
	for _, other := range []string{"", "soon", "2026-01-02T18:30", "2026-01-02T18:30:00Z", "2026-02-30", "2026-W01"} {
		require.Equal(t, other, string(appendISODate(nil, []byte(other))))
	}
}

// TestFormats: which formats show a date, and which show zeros that a number does not have.
func TestFormats(t *testing.T) {
	for code, want := range map[string]format{
		"General": {}, "0": {}, "0.00": {}, "#,##0.00": {}, `#,##0 "Std";[Red]-#,##0`: {}, `0.00\ "€"`: {}, "[$€-407] #,##0": {}, "@": {}, "_-* #,##0_-": {}, "0%": {},
		"dd.mm.yyyy": {date: true}, "m/d/yy": {date: true}, "[h]:mm": {date: true}, "[$-407]d. mmmm yyyy": {date: true}, "[Red]yyyy": {date: true}, "hh:mm:ss": {date: true},
		"[Magenta]0.00": {}, "[magenta]#,##0": {}, "[>=100][Magenta]0;[Red]0": {}, "[hm]0": {}, `"[h]"0`: {signs: true}, "[Magenta]0000": {digits: 4},
		"[hh]:mm": {date: true}, "[M]": {date: true}, "[SSS].00": {date: true}, "[Magenta]dd.mm.": {date: true},
		"00000000": {digits: 8, zeros: true}, `"ORD-"0000`: {digits: 4, signs: true},
		"000-00-0000": {digits: 9, signs: true}, "00000-0000": {digits: 9, signs: true}, "(000) 000-0000": {digits: 10, signs: true}, "00000 00000": {digits: 10}, "000,000": {digits: 6},
		"0##########": {digits: 11}, "0#": {digits: 2}, "#0": {}, "??0": {}, "00000_ ": {digits: 5}, "00/00": {digits: 4, signs: true}, `00\-00`: {digits: 4, signs: true}, "00.00": {digits: 2},
		"[<=9999999]000-0000;(000) 000-0000": {digits: 10, signs: true}, "+0;-0": {signs: true}, `\A0`: {signs: true}, `0"/2026"`: {signs: true}, `"A-"General`: {signs: true}, `General"x"`: {signs: true},
		`"Ja";"Ja";"Nein"`: {signs: true}, "0;(0)": {}, `0;\-0;"-"`: {}, "0.00E+00": {}, "##0.0E+0": {}, "# ##0": {}, "#'##0": {}, "$#,##0_);($#,##0)": {}, `#,##0 "kg"`: {}, "[$USD] 0": {}, "# ?/?": {signs: true},
		"bbbb": {date: true}, "d/m/bb": {date: true}, "[$-107041E]d mmm yy": {date: true}, "ว/ด/ปปปป": {date: true}, "[ช]:นน": {date: true}, `ggge"年"`: {date: true}, "aaa": {date: true}, "AM/PM": {date: true}, "t0": {},
	} {
		require.Equal(t, want, readFormat(code), code)
	}
	require.True(t, builtinDate("14"))
	for _, thai := range []string{"71", "78", "79", "81"} {
		require.True(t, builtinDate(thai))
	}
	require.False(t, builtinDate("61"))
	require.False(t, builtinDate("82"))
	require.False(t, builtinDate("10"))
	require.False(t, builtinDate("x"))
}

func TestPlaces(t *testing.T) {
	for column, want := range map[int]string{1: "A", 26: "Z", 27: "AA", 702: "ZZ", 703: "AAA", MaxColumns: "XFD"} {
		require.Equal(t, want, ColumnName(column))
		got, row, ok := readPlace([]byte(want + "17"))
		require.True(t, ok)
		require.Equal(t, []int{column, 17}, []int{got, row})
	}
	for _, ref := range []string{"", "A", "1", "A0", "1a", "XFE1", "A1048577", "AAAAA1", "$A$1", "A1B", "A1234567890"} {
		_, _, ok := readPlace([]byte(ref))
		require.False(t, ok, ref)
	}
	require.Equal(t, "Orders!C17", Place("Orders", 17, 3))
	require.Equal(t, "Orders!17", Place("Orders", 17, 0))
	require.Equal(t, "'My ''best'' orders'!A1", Place("My 'best' orders", 1, 1))
	require.Equal(t, "Aufträge!A1", Place("Aufträge", 1, 1))
}
