package xlsx

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
)

// format is what the number format of a style says about a number.
type format struct {
	date bool
	// digits is the least number of digits that the format shows, with zeros in front.
	digits int
	// signs says that the format shows a number with signs that are no part of it, as those
	// of a telephone number are.
	signs bool
	// zeros says that the format is nothing but zeros.
	zeros bool
}

// maxStyles bounds the styles of a workbook. Spreadsheets have 65,490.
const maxStyles = 1 << 17

func (b *Book) readStyles(name string) error {
	codes := make(map[string]string) // of the formats that the workbook defines
	inside := ""
	return b.each(name, func(depth int, tag string, attrs map[string]string) error {
		switch {
		case depth == 1:
			inside = tag
		case inside == "numFmts" && tag == "numFmt" && len(codes) < maxStyles:
			codes[attrs["numFmtId"]] = attrs["formatCode"]
		case inside == "cellXfs" && tag == "xf" && depth == 2:
			if len(b.formats) == maxStyles {
				return errors.New("it has too many styles")
			}
			id := attrs["numFmtId"]
			code, own := codes[id]
			if own {
				b.formats = append(b.formats, readFormat(code))
			} else {
				b.formats = append(b.formats, format{date: builtinDate(id)})
			}
		}
		return nil
	})
}

// builtinDate reports whether a format without a code shows a date or a time
// (ISO/IEC 29500-1, 18.8.30; some are those of East Asian languages and of Thai).
func builtinDate(id string) bool {
	n, ok := readCount([]byte(id))
	return ok && (n >= 14 && n <= 22 || n >= 27 && n <= 36 || n >= 45 && n <= 47 || n >= 50 && n <= 58 || n >= 71 && n <= 81)
}

// section is what one section of a format code says. A code has sections for positive and negative
// numbers and for zero, or for those that meet a condition.
type section struct {
	date, conditional bool
	// general: the number as it is. places: it has places for digits.
	general, places bool
	// digits counts the places in front of the decimal point, from the first that shows a zero on.
	digits int
	// amount: a decimal point, thousands, a percent sign, an exponent or a currency, which no
	// number has that is a name.
	amount bool
	// signs: it shows more than digits and spaces.
	signs bool
}

// readFormat reads a format code such as "dd.mm.yyyy", "00000000" or "(000) 000-0000". The first
// section counts, and all of them if they have conditions.
func readFormat(code string) (f format) {
	for rest := []rune(code); ; {
		var s section
		s, rest = readSection(rest)
		f.date = f.date || s.date
		f.digits = max(f.digits, s.digits)
		f.signs = f.signs || s.signs && !s.amount && !s.date
		if len(rest) == 0 || !s.conditional {
			break
		}
		rest = rest[1:]
	}
	if f.date {
		return format{date: true}
	}
	if f.digits < 2 {
		f.digits = 0
	}
	f.zeros = f.digits > 0 && strings.Trim(code, "0") == ""
	return f
}

// dateLetters stand for parts of a date or a time, also by the calendars of Japan (e, g, a) and
// Thailand (b), whose own letters are the last ones.
const dateLetters = "yYmMdDhHsSbBegaAวดปชนท"

// readSection reads a section. rest begins with the semicolon behind it.
func readSection(code []rune) (s section, rest []rune) {
	fraction := false
	sign := func(r rune) {
		if unicode.Is(unicode.Sc, r) {
			s.amount = true
		} else if !unicode.IsSpace(r) && !(r == '\'' || r == '’') {
			s.signs = true
		}
	}
	for i := 0; i < len(code); i++ {
		switch r := code[i]; {
		case r == ';':
			return s, code[i:]
		case r == '"':
			for i++; i < len(code) && code[i] != '"'; i++ {
				sign(code[i])
			}
		case r == '\\':
			if i++; i < len(code) {
				sign(code[i])
			}
		case r == '_', r == '*':
			i++
		case r == '[':
			end := i + 1
			for end < len(code) && code[end] != ']' {
				end++
			}
			switch inside := string(code[i+1 : end]); {
			case elapsed.MatchString(inside):
				s.date = true
			case strings.HasPrefix(inside, "$"):
				s.amount = s.amount || !strings.HasPrefix(inside, "$-")
			case inside != "" && strings.ContainsRune("<>=", rune(inside[0])):
				s.conditional = true
			}
			i = end
		case len(code)-i >= 7 && strings.EqualFold(string(code[i:i+7]), "general"):
			s.general = true
			i += 6
		case (r == 'E' || r == 'e') && i+1 < len(code) && (code[i+1] == '+' || code[i+1] == '-'):
			s.amount, fraction = true, true
			i++
		case strings.ContainsRune(dateLetters, r):
			s.date = true
		case r == '0', r == '#', r == '?':
			if s.places = true; !fraction && (r == '0' || s.digits > 0) {
				s.digits++
			}
		case r == '.':
			s.amount, fraction = s.amount || s.places, true
		case r == ',':
			s.amount = s.amount || s.places
		case r == '%':
			s.amount = true
		case r == '@', r == 't':
		default:
			sign(r)
		}
	}
	return s, nil
}

// elapsed matches what is in the brackets of elapsed time, such as [h] and [mm].
var elapsed = regexp.MustCompile(`^([hH]+|[mM]+|[sS]+|ช+|น+|ท+)$`)
