package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// breakerSlots is the number of slots that the moving window consists of.
const breakerSlots = 10

// breaker is a circuit breaker over a moving window. Gate.mu guards it.
type breaker struct {
	ratio float64
	min   int
	slot  time.Duration // length of one slot

	counts [breakerSlots]struct{ all, failed int }
	at     int64 // number of the current slot since 1970
	streak int   // consecutive failures
}

func newBreaker(cfg Config) breaker {
	return breaker{ratio: cfg.BreakerRatio, min: cfg.BreakerMin, slot: cfg.BreakerWindow / breakerSlots}
}

// record counts one request and reports whether the breaker opens. It opens
//   - when the share of failures in the window reaches ratio, or
//   - after min consecutive failures, which shows a hard outage at once, even
//     after busy minutes, or
//   - after min/2 failures and no success in the window, which stops a trickle
//     of orders into a dead API.
func (b *breaker) record(now time.Time, failed bool) (open bool) {
	if b.ratio == 0 {
		return false
	}
	b.move(now)
	c := &b.counts[b.at%breakerSlots]
	c.all++
	if !failed {
		b.streak = 0
		return false
	}
	c.failed++
	b.streak++
	var all, bad int
	for _, c := range b.counts {
		all, bad = all+c.all, bad+c.failed
	}
	switch {
	case b.streak >= b.min, bad == all && bad >= max(b.min/2, 1):
		return true
	default:
		return all >= b.min && float64(bad) >= b.ratio*float64(all)
	}
}

// move clears the slots that have left the window.
func (b *breaker) move(now time.Time) {
	n := now.UnixNano() / int64(b.slot)
	for i := max(b.at+1, n-breakerSlots+1); i <= n; i++ {
		b.counts[i%breakerSlots] = struct{ all, failed int }{}
	}
	b.at = max(n, b.at)
}

// reset clears all counts after the breaker has closed.
func (b *breaker) reset() {
	clear(b.counts[:])
	b.streak = 0
}

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
