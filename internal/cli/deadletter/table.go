package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// maxReasons is the largest number of reasons that are counted separately. There are
// few unless a rule puts parts of the order into the reason.
const maxReasons = 1000

type reason struct {
	outcome, text string
	status        int
	said          string
}

// reasons counts letters by outcome, reason, status and what the answer says.
type reasons struct {
	total  int
	counts map[reason]int
}

func newReasons() *reasons { return &reasons{counts: make(map[reason]int)} }

func (r *reasons) add(page []*settle.Letter) error {
	for _, l := range page {
		r.total++
		key := reason{l.Outcome.String(), l.Reason, l.Status, l.Said}
		if _, known := r.counts[key]; !known && len(r.counts) >= maxReasons {
			key = reason{outcome: key.outcome, text: deadletter.OtherReasons}
		}
		r.counts[key]++
	}
	return nil
}

// reasonRows is the number of reasons in the text output.
const reasonRows = 15

func (r *reasons) print(w io.Writer) {
	if r.total == 0 {
		say(w, "No dead letters match.")
		return
	}
	say(w, "%d dead %s\n", r.total, lookup.Plural(r.total, "letter", "letters"))
	keys := slices.SortedFunc(maps.Keys(r.counts), func(a, b reason) int {
		return cmp.Or(r.counts[b]-r.counts[a], cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.text, b.text), cmp.Compare(a.status, b.status), cmp.Compare(a.said, b.said))
	})
	for _, k := range keys[:min(len(keys), reasonRows)] {
		say(w, "%9d  %-9s  %s", r.counts[k], k.outcome, lookup.Clip(orDash(k.text), 57))
		if k.said != "" {
			say(w, "%9s  %-9s  %s", "", strconv.Itoa(k.status), lookup.Clip(k.said, 57))
		}
	}
	if more := len(keys) - reasonRows; more > 0 {
		say(w, "           … and %d more reasons", more)
	}
	say(w, "")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// orderNoColumn is the width of the column for order numbers.
const orderNoColumn = 24

// tableRows prints lines of at most 80 columns. It prints an order number that does not
// fit into its column in full on the next line, because the next command needs it.
type tableRows struct {
	w        io.Writer
	now      time.Time // for letters of another year
	begun    bool
	underway map[uint64]bool // by the letter's sequence
}

// look reads which letters of the next page are under way.
func (r *tableRows) look(ctx context.Context, q *queue.Queue, page []*settle.Letter) error {
	underway, err := deadletter.Underway(ctx, q, page)
	r.underway = make(map[uint64]bool)
	for i, yes := range underway {
		r.underway[page[i].Seq] = yes
	}
	return err
}

func (r *tableRows) letter(l *settle.Letter) error {
	const line = "%-11s  %-9s  %-4s  %3s  %-24s  %s\n"
	if !r.begun {
		r.begun = true
		if _, err := fmt.Fprintf(r.w, line, "FILED (UTC)", "OUTCOME", "HTTP", "TRY", "ORDER_NO", "REASON"); err != nil {
			return err
		}
	}
	status := "-"
	if l.Status != 0 {
		status = strconv.Itoa(l.Status)
	}
	filed := l.FiledAt.UTC().Format("01-02 15:04")
	if l.FiledAt.UTC().Year() != r.now.UTC().Year() {
		filed = l.FiledAt.UTC().Format("2006-01-02")
	}
	why := orDash(l.Reason)
	if r.underway[l.Seq] {
		why = "under way"
	}
	_, err := fmt.Fprintf(r.w, line, filed, l.Outcome, status,
		strconv.Itoa(l.Attempts), lookup.Clip(l.OrderNo, orderNoColumn), lookup.Clip(why, 19))
	if err == nil && utf8.RuneCountInString(l.OrderNo) > orderNoColumn {
		for _, part := range lookup.Lines(l.OrderNo, 76) {
			_, err = fmt.Fprintf(r.w, "    %s\n", part)
		}
	}
	if name := l.Name(); err == nil && name != l.OrderNo {
		_, err = fmt.Fprintf(r.w, "    orderpost deadletter show %s\n", name)
	}
	return err
}

func (r *tableRows) end() error { return nil }
