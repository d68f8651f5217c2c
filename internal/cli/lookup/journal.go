package lookup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orderpost/internal/journal"
	"orderpost/internal/status"
)

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
