package importer

import (
	"bufio"
	"fmt"
	"strings"
)

// dialect describes the syntax of a CSV file.
type dialect struct {
	comma rune
	// sep: the file begins with Excel's sep= line.
	sep bool
}

// delimiters are the delimiters to detect, the most likely first.
var delimiters = []rune{',', ';', '\t', '|'}

// ParseDelimiter reads the name of a delimiter: one character, or "tab".
func ParseDelimiter(name string) (rune, error) {
	if name == "tab" || name == `\t` {
		return '\t', nil
	}
	if r := []rune(name); len(r) == 1 && !strings.ContainsRune("\"\r\n\ufffd", r[0]) {
		return r[0], nil
	}
	return 0, fmt.Errorf("delimiter %q is not one character or the word tab", name)
}

// detect detects the dialect from the first lines. It consumes a sep= line and
// nothing else.
func detect(r *bufio.Reader, given rune) (dialect, error) {
	head, _ := r.Peek(r.Size())
	d := dialect{comma: given}
	start := strings.TrimLeft(string(head), " \r\n")
	line, _, _ := strings.Cut(start, "\n")
	line = strings.TrimSuffix(line, "\r")
	if sep, ok := cutPrefixFold(strings.Trim(line, `"`), "sep="); ok && len(start) == len(head) && len([]rune(sep)) == 1 {
		d.sep = true
		if d.comma == 0 {
			comma, err := ParseDelimiter(sep)
			if err != nil {
				return d, fmt.Errorf("the line %q: %w", line, err)
			}
			d.comma = comma
		}
		if _, err := r.ReadString('\n'); err != nil {
			return d, nil // the file ends here; reading the header reports that
		}
	}
	if d.comma == 0 {
		d.comma = likeliest(start)
	}
	return d, nil
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// likeliest returns the most frequent delimiter in the header, outside quotes.
func likeliest(head string) rune {
	counts := make(map[rune]int)
	quoted := false
	for _, r := range head {
		if r == '"' {
			quoted = !quoted
		}
		if r == '\n' && !quoted {
			break
		}
		if !quoted {
			counts[r]++
		}
	}
	best := delimiters[0]
	for _, d := range delimiters {
		if counts[d] > counts[best] {
			best = d
		}
	}
	return best
}
