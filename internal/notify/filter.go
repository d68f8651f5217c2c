package notify

import (
	"slices"
	"strings"

	"orderpost/internal/deadletter"
)

// filter says which events are wanted. Each of its lists that is not empty must match one
// and the same submission. The list of outcomes lets every correction pass: the receiver may
// have been told what it corrects.
type filter struct {
	outcomes                []string
	types, sources, imports []func(string) bool
}

func newFilter(c Config) *filter {
	f := &filter{types: patterns(c.Types), sources: patterns(c.Sources), imports: patterns(c.Imports)}
	for _, word := range c.Outcomes {
		f.outcomes = append(f.outcomes, strings.TrimSpace(word))
	}
	return f
}

func patterns(texts []string) (all []func(string) bool) {
	for _, text := range texts {
		all = append(all, deadletter.Pattern(strings.TrimSpace(text)))
	}
	return all
}

// wants reports whether events of one of these types are sent.
func (f *filter) wants(kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		return one(f.types, kind) && (len(f.types) > 0 || !slices.Contains(onDemand, kind))
	})
}

func (f *filter) matches(subs []Submission, corrects bool) bool {
	return slices.ContainsFunc(subs, func(s Submission) bool {
		return (len(f.outcomes) == 0 || corrects || slices.Contains(f.outcomes, s.Outcome)) && one(f.sources, s.Source) && one(f.imports, s.Batch)
	})
}

// one reports whether one of the patterns matches, or there are none.
func one(patterns []func(string) bool, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(matches func(string) bool) bool { return matches(text) })
}
