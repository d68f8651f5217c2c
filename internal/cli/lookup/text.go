package lookup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"orderpost/internal/audit/journal"
	"orderpost/internal/status"
)

// width is the usual width of a terminal.
const width = 80

// Plain makes foreign text harmless for a terminal. Control characters and invalid
// UTF-8 become question marks, line ends become spaces.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r) && r != ' ':
			return '?'
		}
		return r
	}, s)
}

// Clip returns Plain text, shortened to n characters.
func Clip(s string, n int) string {
	s = Plain(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Lines returns Plain text, broken into lines of at most n characters, between words if
// possible.
func Lines(s string, n int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(Plain(s)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > n {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		for line += word; utf8.RuneCountInString(line) > n; {
			runes := []rune(line)
			lines, line = append(lines, string(runes[:n])), string(runes[n:])
		}
	}
	return append(lines, line)
}

// Plural returns the form of a word for n things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Describe returns what an act was about, and what came of it, in a few lines.
// Kind, actor and time are not among them.
func Describe(i journal.Item) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case i.OrderNo != "":
		add("order %s", i.OrderNo)
	case i.Batch != "":
		add("import %s", i.Batch)
	}
	if text := filterText(i.Filter); text != "" && i.OrderNo == "" {
		add("%s, up to letter %d", text, i.LastSeq)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Details)) {
		if v := i.Details[name]; v != "" && name != "content" {
			add("%s: %s", name, v)
		}
	}
	if i.Note != "" {
		add("note: %s", i.Note)
	}
	if i.Unannounced {
		add("went on before the journal could be written")
	}
	return append(lines, "by "+i.Program+" on "+i.Host, resultText(i))
}

// filterText returns a filter as the flags that set it.
func filterText(filter map[string][]string) string {
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		for _, value := range filter[name] {
			if name == "all" {
				flags = append(flags, "--all")
				continue
			}
			flags = append(flags, "--"+name+" "+status.ShellWord(value))
		}
	}
	return strings.Join(flags, " ")
}

func resultText(i journal.Item) string {
	r := i.Result
	if r == nil {
		return journal.NoResult
	}
	text := string(r.End)
	var counts []string
	for _, fate := range slices.Sorted(maps.Keys(r.Counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", r.Counts[fate], fate))
	}
	if len(counts) > 0 {
		text += ": " + strings.Join(counts, ", ")
	}
	if r.Error != "" {
		text += " (" + r.Error + ")"
	}
	if len(r.ApprovedBy) > 0 {
		text += "; approved by " + strings.Join(r.ApprovedBy, " and ")
	}
	return text
}
