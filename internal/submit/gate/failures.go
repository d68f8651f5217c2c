package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxFailures is the number of failures whose causes the gate remembers.
const maxFailures = 64

// failures is a ring of the last failed requests. It tells people why the
// breaker opened. Gate.mu guards it.
type failures struct {
	list [maxFailures]failure
	next int
}

type failure struct {
	at          time.Time
	cause, body string
}

func (f *failures) add(now time.Time, s Signal) {
	f.list[f.next%maxFailures] = failure{now, s.Cause, s.Body}
	f.next++
}

// summary lists the causes since a time with their counts, the most frequent
// first, and shows the last body.
func (f *failures) summary(since time.Time) string {
	counts, body, last := map[string]int{}, "", time.Time{}
	for _, one := range f.list {
		if one.cause == "" || one.at.Before(since) {
			continue
		}
		counts[one.cause]++
		if one.body != "" && !one.at.Before(last) {
			body, last = one.body, one.at
		}
	}
	causes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for i, c := range causes {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d other causes", len(causes)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d times)", c, counts[c]))
	}
	text := strings.Join(parts, ", ")
	if body != "" {
		text += "; the last answer begins: " + body
	}
	return text
}
