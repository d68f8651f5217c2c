package importer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"orderpost/internal/order"
	"orderpost/internal/status"
)

// Questions lists the codes of cells that a program has probably spoiled, of rows that are
// probably no orders, and of numbers as people write them. A person can accept such a cell with Mapping.Accept.
func Questions() []Code {
	return []Code{CodeExcel, CodeShown, CodeError, CodeRounded, CodeDate, CodeInvisible, CodeApostrophe, CodeQuoted, CodeNoOrder, CodeComma, CodeThousands}
}

// question returns what is suspicious about a cell of text or a number in any
// column, or "". It is fast for harmless cells.
func question(cell string) Code {
	if cell == "" {
		return ""
	}
	switch first := cell[0]; {
	case first == '#', first == 'E':
		if isErrorValue(cell) {
			return CodeError
		}
	case first == '\'':
		if unescapeStart(cell) != cell || len(cell) > 1 && strings.IndexByte("=+-@", cell[1]) >= 0 {
			return CodeApostrophe
		}
	case first == '=':
		if len(cell) > 2 && cell[1] == '"' && cell[len(cell)-1] == '"' {
			return CodeQuoted
		}
	case first == '+', first == '-', '0' <= first && first <= '9':
		if n := len(cell); n > 4 && (cell[n-3] == '+' || cell[n-4] == '+') && displayed.MatchString(cell) {
			return CodeExcel
		}
	}
	if strings.IndexByte(cell, 0) >= 0 {
		return CodeInvisible
	}
	return ""
}

// questionOfOrderNo is question for an order number, which has to be right to
// the last character.
func questionOfOrderNo(cell string) Code {
	switch code := question(cell); {
	case code != "":
		return code
	case isRetyped(cell):
		return CodeExcel
	case invisibleAt(cell) >= 0:
		return CodeInvisible
	case isDate(cell):
		return CodeDate
	case isQuoted(cell):
		return CodeQuoted
	case cell != "" && cell[0] == '\'':
		return CodeApostrophe
	case noOrder(cell) != "":
		return CodeNoOrder
	}
	return ""
}

// isRetyped reports whether a program has made a number of an order number and written that.
func isRetyped(cell string) bool {
	return cell != "" && strings.IndexByte("+-0123456789", cell[0]) >= 0 && strings.IndexFunc(cell, func(r rune) bool { return r < '0' || r > '9' }) >= 0 &&
		(mangled.MatchString(cell) || float.MatchString(cell) || grouped.MatchString(cell))
}

// isQuoted reports whether a cell has quotes around it, or a quote at its end.
func isQuoted(cell string) bool {
	first, _ := utf8.DecodeRuneInString(cell)
	last, _ := utf8.DecodeLastRuneInString(cell)
	return isQuote(last) || first != '\'' && isQuote(first)
}

// isQuote reports whether r is a quotation mark, or a sign that people type for one.
func isQuote(r rune) bool {
	return r == '"' || r == '\'' || r >= '`' && (unicode.Is(unicode.Quotation_Mark, r) || strings.ContainsRune("`´′″‵‶", r))
}

var (
	// mangled is how programs write a large or a small number: with one digit in front of the
	// point, if the exponent has no sign.
	mangled = regexp.MustCompile(`^[+-]?(?:[0-9]+([.,][0-9]+)?[eE]\+[0-9]+|(?:[0-9]|[0-9]+[.,][0-9]+)[eE]-?[0-9]{1,3})$`)
	// float is how programs write a whole number that became a floating point number.
	float = regexp.MustCompile(`^[+-]?[0-9]+[.,]0+$`)
	// grouped is a number with separators between its thousands.
	grouped = regexp.MustCompile(`^[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+|(?:['’][0-9]{3})+)(?:\.[0-9]+)?$`)
	// displayed is the exact form that a spreadsheet shows. It is for columns in which
	// other numbers are legitimate.
	displayed = regexp.MustCompile(`^[+-]?[0-9]([.,][0-9]+)?E\+[0-9]{2,3}$`)
	// libreError is how LibreOffice shows errors that have no name.
	libreError = regexp.MustCompile(`^Err ?:[5][0-9]{2}$`)
)

// errorValues lists the error values of spreadsheets that do not end in ! or ?, in
// all languages. isErrorValue recognises the others by their form.
var errorValues = []string{"#N/A", "#NV", "#N/D", "#N/B", "#ND", "#NA", "#I/T", "#YOK", "#Н/Д", "#HIÁNYZIK", "#NENÍ_K_DISPOZICI", "#NEDOSTUPNÝ",
	"#GETTING_DATA"}

// isErrorValue recognises #REF!, #BEZUG!, #¿NOMBRE?, #NV, Err:502 and the hashes
// that a spreadsheet shows in a column that is too narrow.
func isErrorValue(cell string) bool {
	rest, marked := strings.CutPrefix(cell, "#")
	switch {
	case !marked:
		return libreError.MatchString(cell)
	case len(cell) > 64:
		return false
	case len(cell) >= 3 && strings.Trim(rest, "#") == "", slices.Contains(errorValues, cell):
		return true
	}
	word, mark := rest, byte(0)
	if rest != "" {
		word, mark = rest[:len(rest)-1], rest[len(rest)-1]
	}
	if mark != '!' && mark != '?' || len(word) < 2 {
		return false
	}
	return strings.IndexFunc(word, func(r rune) bool { return !unicode.IsUpper(r) && !strings.ContainsRune("/0_.¡¿", r) }) < 0
}

// invisibleAt returns the index of the first invisible character or replacement
// character, or -1. A plain space counts as visible.
func invisibleAt(cell string) int {
	return strings.IndexFunc(cell, func(r rune) bool {
		if r > ' ' && r < 0x7f || r == ' ' {
			return false
		}
		return r == utf8.RuneError || !unicode.IsPrint(r) || r == '\u115f' || r == '\u1160' || r == '\u2800' || r == '\u3164' || r == '\uffa0' ||
			unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
	})
}

// isPadding reports whether r is a space of any kind, including no-break and
// zero-width spaces.
func isPadding(r rune) bool {
	return unicode.IsSpace(r) || r == '\u200b' || r == '\u2060' || r == '\ufeff'
}

// isPadded reports whether an order number has leading or trailing spaces. They are
// always a mistake.
func isPadded(cell string) bool {
	first, _ := utf8.DecodeRuneInString(cell)
	last, _ := utf8.DecodeLastRuneInString(cell)
	return cell != "" && (isPadding(first) || isPadding(last))
}

// questionError returns the error of a question about a cell. It says how to correct
// the cell and how to accept it.
func questionError(field, cell string, code Code) error {
	seen := strconv.Quote(clip(cell))
	var what string
	switch code {
	case CodeExcel:
		if what = seen + " is how a program writes a number, and an order number is text; have the column written as text"; mangled.MatchString(cell) || displayed.MatchString(cell) {
			what = seen + " is a number that a spreadsheet has rounded, its last digits are lost; format the column as text and export it again"
		}
	case CodeError:
		what = seen + " is what a spreadsheet shows instead of a value (an error, or a column that is too narrow); correct it there and export it again"
	case CodeRounded:
		what = seen + " looks rounded: spreadsheets keep 15 digits and write zeros for the rest; get the numbers from their source, format the column as text and export it again"
	case CodeDate:
		what = seen + " looks like a date that a spreadsheet has made of an order number; format the column as text, enter the number again and export it"
	case CodeInvisible:
		at := max(invisibleAt(cell), 0)
		r, _ := utf8.DecodeRuneInString(cell[at:])
		what = fmt.Sprintf("%s has an invisible or damaged character (%U, character %d); remove it", seen, r, utf8.RuneCountInString(cell[:at])+1)
	case CodeQuoted:
		what = seen + " has quotes that a program has put around it, and they would be sent as a part of it; remove them (cells are quoted by \" alone)"
		if cell[0] == '=' {
			what = seen + " is what exports write to keep a spreadsheet from changing a cell, and would be sent with its signs; remove =\" and \""
		}
	case CodeNoOrder:
		what = seen + " " + cmp.Or(noOrder(cell), headerAgain) + "; remove the row, or correct the cell"
	case CodeApostrophe:
		what = seen + " begins with an apostrophe that marks text in a spreadsheet, and would become a part of the value; remove the apostrophe"
	}
	return advise(what, ". If it is right as it is: "+acceptFlag(field, code))
}

// headerAgain says that a row has the names of the columns.
const headerAgain = "is the name of a column: the row is the header again, as in files that were joined"

// noOrder says why a cell is no order number, but what stands where a row has none; "" = it may
// be one.
func noOrder(cell string) string {
	digits, letters, space := false, false, false
	for _, r := range cell {
		switch {
		case '0' <= r && r <= '9':
			digits = true
		case r == ' ':
			space = true
		default:
			letters = letters || unicode.IsLetter(r) || unicode.IsNumber(r)
		}
	}
	switch {
	case !digits && !letters && cell != "":
		return "has neither letters nor digits: it is a line that is drawn, or a sign for nothing"
	case letters && (space || !digits) && isTotal(cell):
		return "is the word of a row of totals"
	case letters && !digits && missing[strings.ToLower(strings.Trim(cell, "()[]<>{}+-"))]:
		return "is what programs write for a missing value"
	}
	return ""
}

// isTotal reports whether a cell says that its row has totals, as in Total, Grand Total: or A-1 Total.
func isTotal(cell string) bool {
	words := strings.FieldsFunc(strings.ToLower(cell), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(":=()", r) })
	return len(words) > 0 && (totals[words[0]] || totals[words[len(words)-1]] || totals[strings.Join(words, " ")])
}

var (
	// missing holds what programs write for a missing value, and truth values, without brackets.
	missing = wordSet(`nan|nat|na|n/a|null|nil|none|undefined|missing|dbnull|inf|infinity|\n|true|false|wahr|falsch|blank|leer|empty|object object`)
	// totals holds the words that spreadsheets, reports and people write beside a sum.
	totals = wordSet(`total|totals|subtotal|sub-total|sum|sums|summe|summen|gesamt|gesamtsumme|gesamtergebnis|ergebnis|zwischensumme|teilergebnis|insgesamt
totale|totaux|somme|sous-total|subtotale|somma|suma|sumas|razem|ogółem|totaal|subtotaal|итого|всего|сумма|toplam|celkem|součet|összesen|yhteensä|summa|totalt
i alt|ukupno|skupaj|jumlah|tổng|tổng cộng|σύνολο|合計|小計|総計|总计|合计|小计|總計|합계|소계|총계|รวม|المجموع|الإجمالي`)
)

// wordSet returns the words of a text, in which a | separates phrases.
func wordSet(text string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '\n' }) {
		set[word] = true
	}
	return set
}

// acceptFlag returns the flag of enqueue that accepts such cells of a field. A name that no
// flag can have, and one that nobody can read, belongs into a mapping file.
func acceptFlag(field string, code Code) string {
	if flag := nameFlag("--accept", field, string(code)); flag != "" {
		return flag
	}
	return string(code) + " for " + clip(field) + ", under accept in a mapping file (--mapping)"
}

// shellWord quotes a word for a shell if necessary. It leaves = and letters beyond ASCII
// without quotes, which status.ShellWord does not.
func shellWord(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && r != '=' && r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) < 0 {
		return s
	}
	return status.ShellWord(s)
}

// padded returns the error of an order number with spaces around it.
func padded(cell string) *cellError {
	return &cellError{code: CodePadded, field: order.FieldOrderNo,
		err: fmt.Errorf("%q has spaces or invisible characters around it; remove them, they would become a part of the number", clip(cell))}
}

// months holds the names and abbreviations of months that spreadsheets use, in lower
// case and without a final point.
var months = wordSet(strings.ReplaceAll(`january february march april may june july august september october november december sept
januar jänner februar feber märz mrz mär april mai juni juli august september oktober november dezember okt dez
janvier février mars avril mai juin juillet août septembre octobre novembre décembre janv févr avr juil déc
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre ene abr ago dic
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre gen mag giu lug set ott
januari februari maart april mei juni juli augustus september oktober november december mrt
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro fev out
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia sty lut kwi maj cze lip sie wrz paź lis gru
januari februari mars april maj juni juli augusti september oktober november december jan feb mar apr jun jul aug sep oct nov dec`, " ", "|"))

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
