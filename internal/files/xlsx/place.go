package xlsx

import (
	"strconv"
	"strings"
	"unicode"
)

const (
	// MaxRows and MaxColumns are the size of a sheet.
	MaxRows    = 1 << 20
	MaxColumns = 1 << 14
)

// ColumnName returns the letters of a column, counted from 1.
func ColumnName(column int) string {
	var out [8]byte
	at := len(out)
	for ; column > 0; column = (column - 1) / 26 {
		at--
		out[at] = 'A' + byte((column-1)%26)
	}
	return string(out[at:])
}

// Place names a row, or a cell if column is not 0, as in Orders!17 and Orders!C17.
func Place(sheet string, row, column int) string {
	if strings.IndexFunc(sheet, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) >= 0 {
		sheet = "'" + strings.ReplaceAll(sheet, "'", "''") + "'"
	}
	return sheet + "!" + ColumnName(column) + strconv.Itoa(row)
}

// readPlace reads the name of a cell such as C17 or c17. ok is false for anything else.
func readPlace(ref []byte) (column, row int, ok bool) {
	i := 0
	for ; i < len(ref) && (ref[i]|0x20) >= 'a' && (ref[i]|0x20) <= 'z' && i < 4; i++ {
		column = 26*column + int((ref[i]|0x20)-'a'+1)
	}
	digits := ref[i:]
	row, ok = readCount(digits)
	return column, row, ok && i > 0 && column <= MaxColumns && row > 0 && row <= MaxRows
}

// readArea returns the rows of an area such as A2:C4.
func readArea(ref string) (from, to int, ok bool) {
	begin, end, _ := strings.Cut(ref, ":")
	_, from, ok = readPlace([]byte(begin))
	_, to, ok2 := readPlace([]byte(end))
	return from, to, ok && ok2
}

// readCount reads up to nine digits.
func readCount(digits []byte) (n int, ok bool) {
	if len(digits) == 0 || len(digits) > 9 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
