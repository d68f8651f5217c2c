package xlsx

import (
	"errors"
	"regexp"
	"strings"
)

// format is what the number format of a style says about a number.
type format struct {
	date bool
	// digits is the least number of digits that the format shows, with zeros in front.
	digits int
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
// (ISO/IEC 29500-1, 18.8.30; some are those of East Asian languages).
func builtinDate(id string) bool {
	n, ok := readCount([]byte(id))
	return ok && (n >= 14 && n <= 22 || n >= 27 && n <= 36 || n >= 45 && n <= 47 || n >= 50 && n <= 58)
}

// literal matches what a format code shows as it is, and what is in brackets: colours,
// currencies, conditions, and elapsed time.
var literal = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[[^\]]*\]`)

// elapsed matches the brackets of elapsed time, such as [h] and [mm].
var elapsed = regexp.MustCompile(`^\[([hH]+|[mM]+|[sS]+)\]$`)

// readFormat reads a format code such as "dd.mm.yyyy" or "00000000". Its first section is
// that of positive numbers.
func readFormat(code string) format {
	code = literal.ReplaceAllStringFunc(code, func(part string) string {
		if elapsed.MatchString(part) {
			return part
		}
		return ""
	})
	code, _, _ = strings.Cut(code, ";")
	switch {
	case strings.EqualFold(code, "General"):
		return format{}
	case strings.ContainsAny(code, "yYmMdDhHsS"):
		return format{date: true}
	case len(code) > 1 && strings.Trim(code, "0") == "":
		return format{digits: len(code)}
	}
	return format{}
}
