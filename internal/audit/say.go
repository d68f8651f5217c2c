package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Sum is a line of an audit's account.
type Sum struct {
	N    uint64
	Text string
}

// AccountOfIntents returns what became of the intents that had been stored when
// the audit began.
func (a *AuditResult) AccountOfIntents() []Sum {
	sums := []Sum{
		{a.Intents, "intents had ever been stored when the audit began"},
		{a.Settled, "of them are settled"},
		{a.Pending, "wait or are being worked on"},
	}
	if a.Forgotten > 0 {
		sums = append(sums, Sum{a.Forgotten, "are older than ORDERPOST_RESULT_RETENTION, and their results are not kept any more"})
	}
	if a.Waiting > 0 {
		sums = append(sums, Sum{a.Waiting, "more wait in the waiting room for their turn or their time"})
	}
	if a.Awaiting > 0 {
		sums = append(sums, Sum{uint64(a.Awaiting), "imports of these wait for an approval"})
	}
	return sums
}

// Missing returns how many intents are not accounted for. It is negative if more
// are accounted for than were stored.
func (a *AuditResult) Missing() int64 {
	return int64(a.Intents) - int64(a.Settled) - int64(a.Pending) - int64(a.Forgotten)
}

// WhyMissing names the possible causes of a wrong sum.
func (a *AuditResult) WhyMissing() string {
	if a.Unsure() {
		return fmt.Sprintf("%d orders went through several intents meanwhile", a.Moving)
	}
	return "removed by hand, or counted twice"
}

// AccountOfOrders returns how many orders have each last word.
func (a *AuditResult) AccountOfOrders() []Sum {
	var sums []Sum
	for _, word := range slices.Sorted(maps.Keys(a.Outcomes)) {
		sums = append(sums, Sum{a.Outcomes[word], word})
	}
	return sums
}

// AccountOfLetters returns how many dead letters there are.
func (a *AuditResult) AccountOfLetters() []Sum {
	sums := []Sum{{a.Letters, fmt.Sprintf("dead letters, %d of them about an order that exists with another body", a.Conflicts)}}
	if a.Unnamed > 0 {
		sums = append(sums, Sum{uint64(a.Unnamed), "more that no record names; a worker removes them within an hour"})
	}
	return sums
}

// NotRead says which results the audit took from earlier ones; "" = none.
func (a *AuditResult) NotRead() string {
	if a.Taken == 0 {
		return ""
	}
	return fmt.Sprintf("Of %d results, %d were read. The others are the same as in the audits since %s, which read them; orderpost audit --full reads all.",
		a.Read+a.Taken, a.Read, a.FullAt.Format(time.RFC3339))
}

// Unacknowledged says in words what Unacked counts.
const Unacknowledged = "more are settled and still stored; a worker removes them soon"
