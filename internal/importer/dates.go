package importer

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// months holds the names and abbreviations of months that spreadsheets use, in lower
// case and without a final point.
var months = monthNames(
	"january february march april may june july august september october november december sept",
	"januar jänner februar feber märz mrz mär april mai juni juli august september oktober november dezember okt dez",
	"janvier février mars avril mai juin juillet août septembre octobre novembre décembre janv févr avr juil déc",
	"enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre ene abr ago dic",
	"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre gen mag giu lug set ott",
	"januari februari maart april mei juni juli augustus september oktober november december mrt",
	"janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro fev out",
	"stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia sty lut kwi maj cze lip sie wrz paź lis gru",
	"januari februari mars april maj juni juli augusti september oktober november december jan feb mar apr jun jul aug sep oct nov dec",
)

func monthNames(languages ...string) map[string]bool {
	names := make(map[string]bool)
	for _, list := range languages {
		for _, name := range strings.Fields(list) {
			names[name] = true
		}
	}
	return names
}

var (
	// numericDate: 31.12.2026, 31.12.26, 12/31/2026, 1/2/26, 31-12-2026, with
	// or without a time behind it.
	numericDate = regexp.MustCompile(`^(\d{1,2})(?:\.(\d{1,2})\.(\d{4}|\d{2})|/(\d{1,2})/(\d{4}|\d{2})|-(\d{1,2})-(\d{4}))(?: \d{1,2}:\d{2}(?::\d{2})?)?$`)
	// isoDate: 2026-12-31, 2026/12/31.
	isoDate = regexp.MustCompile(`^(?:19|20)\d{2}([-/])(\d{1,2})[-/](\d{1,2})(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?$`)
	// namedDate: 02. Jan, 2-Jan, 02-Jan-26, Jan-26, Jan 26.
	namedDate = regexp.MustCompile(`^(?:\d{1,2}[.\- ]{1,2}(\pL{3,12})\.?(?:[.\- ](?:19|20)?\d{2})?|(\pL{3,12})\.?[.\- ](?:19|20)?\d{2})$`)
)

// isDate reports whether an order number looks like a date that a spreadsheet made
// of a number such as 1-2 or 2/1, in one of the common languages. Spreadsheets do not
// write months in capitals.
func isDate(cell string) bool {
	if len(cell) < 4 || len(cell) > 24 || !strings.ContainsAny(cell, ".-/ ") {
		return false
	}
	if strings.Trim(cell, "0123456789.-/: T") == "" {
		if m := numericDate.FindStringSubmatch(cell); m != nil {
			a, b := m[1], m[2]+m[4]+m[6]
			return isDayMonth(a, b) || isDayMonth(b, a)
		}
		m := isoDate.FindStringSubmatch(cell)
		return m != nil && isDayMonth(m[3], m[2])
	}
	if strings.IndexFunc(cell, unicode.IsLower) < 0 {
		return false
	}
	m := namedDate.FindStringSubmatch(cell)
	return m != nil && months[strings.ToLower(m[1]+m[2])]
}

func isDayMonth(day, month string) bool {
	d, _ := strconv.Atoi(day) // digits, by the pattern
	m, _ := strconv.Atoi(month)
	return d >= 1 && d <= 31 && m >= 1 && m <= 12
}
