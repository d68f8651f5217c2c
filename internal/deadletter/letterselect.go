package deadletter

import (
	"cmp"
	"context"
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// LetterGroup counts the letters with the same outcome and reason.
type LetterGroup struct {
	Outcome order.Outcome
	Status  int
	Reason  string
	// Said is what the answers themselves say.
	Said string
	N    int
}

// LetterSelection counts the letters that a matcher selects.
type LetterSelection struct {
	Total int
	// Groups are sorted by their size, the largest first.
	Groups []LetterGroup
	// Last is the highest sequence in the index.
	Last uint64
	// Version tells whether the index has changed since.
	Version uint64
}

// selector is a matcher that knows which kinds of an index it selects at one moment.
type selector struct {
	*LetterMatcher
	kinds map[*letterCount]bool
}

// selector needs x.mu.
func (x *LetterIndex) selector(m *LetterMatcher) selector {
	s := selector{m, make(map[*letterCount]bool)}
	for _, c := range x.kinds {
		if m.kind(c.LetterKind) {
			s.kinds[c] = true
		}
	}
	return s
}

func (s selector) selects(e *letterEntry) bool {
	return s.kinds[e.kind] && s.filed(time.UnixMilli(e.filed)) && s.name(e.orderNo)
}

// Version counts the changes of the index.
func (x *LetterIndex) Version() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.version
}

// Select counts what a matcher selects.
func (x *LetterIndex) Select(m *LetterMatcher) *LetterSelection {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out, s := &LetterSelection{Version: x.version}, x.selector(m)
	if n := len(x.entries); n > 0 {
		out.Last = x.entries[n-1].seq
	}
	counts := make(map[*letterCount]int)
	if m.orderNo == nil && m.begin.IsZero() && m.end.IsZero() {
		for c := range s.kinds {
			counts[c] = c.n
		}
	} else {
		for i := range x.entries {
			if e := &x.entries[i]; s.selects(e) {
				counts[e.kind]++
			}
		}
	}
	groups := make(map[LetterGroup]int)
	for c, n := range counts {
		groups[LetterGroup{Outcome: c.Outcome, Status: c.Status, Reason: c.Reason, Said: c.Said}] += n
		out.Total += n
	}
	for g, n := range groups {
		g.N = n
		out.Groups = append(out.Groups, g)
	}
	slices.SortFunc(out.Groups, func(a, b LetterGroup) int {
		return cmp.Or(b.N-a.N, cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Said, b.Said))
	})
	return out
}

// LetterRow is what an index knows of a letter.
type LetterRow struct {
	Seq     uint64
	OrderNo string
	FiledAt time.Time // to the millisecond
	LetterKind
	// Underway: an intent of the order, a replay or a correction, is in the queue. Only Rows sets it.
	Underway bool
}

func (e *letterEntry) row() LetterRow {
	return LetterRow{Seq: e.seq, OrderNo: e.orderNo, FiledAt: time.UnixMilli(e.filed).UTC(), LetterKind: e.kind.LetterKind}
}

// LetterPage is a part of what a matcher selects.
type LetterPage struct {
	// Rows are the letters, oldest first.
	Rows []LetterRow
	// Before and After say whether there are older and newer ones.
	Before, After bool
}

// Page returns at most n selected letters, from sequence from on. With back it
// returns those before from.
func (x *LetterIndex) Page(m *LetterMatcher, from uint64, n int, back bool) (p LetterPage) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.selector(m)
	if back {
		older := x.before(s, from, n+1)
		p.Before, p.After = len(older) > n, len(x.from(s, from, 1)) > 0
		p.Rows = older[max(0, len(older)-n):]
		return p
	}
	newer := x.from(s, from, n+1)
	p.Before, p.After = len(x.before(s, from, 1)) > 0, len(newer) > n
	p.Rows = newer[:min(n, len(newer))]
	return p
}

// from returns at most n selected letters, the first at or after seq.
func (x *LetterIndex) from(s selector, seq uint64, n int) (out []LetterRow) {
	for i := x.at(seq); i < len(x.entries) && len(out) < n; i++ {
		if e := &x.entries[i]; s.selects(e) {
			out = append(out, e.row())
		}
	}
	return out
}

// before returns at most n selected letters, the last before seq.
func (x *LetterIndex) before(s selector, seq uint64, n int) (out []LetterRow) {
	for i := x.at(seq) - 1; i >= 0 && len(out) < n; i-- {
		if e := &x.entries[i]; s.selects(e) {
			out = append(out, e.row())
		}
	}
	slices.Reverse(out)
	return out
}

// Rows returns what the records say by now of at most 256 letters that Page returned, without those that no record
// names or that m does not select any more. It notes in the index what it saw.
func (x *LetterIndex) Rows(ctx context.Context, m *LetterMatcher, rows []LetterRow) ([]LetterRow, error) {
	letters := make([]*settle.Letter, len(rows))
	x.mu.RLock()
	for i, r := range rows { // the intent's id only says that nothing is missing
		letters[i] = &settle.Letter{Seq: r.Seq, OrderNo: r.OrderNo, FiledAt: r.FiledAt, FiledUnder: x.tokens[r.Seq], IntentID: "?",
			Outcome: r.Outcome, Status: r.Status, Reason: r.Reason, Said: r.Said, Batch: r.Batch}
	}
	x.mu.RUnlock()
	intents, err := x.queue.Intents().Peek(ctx, intentTokens(letters))
	if err != nil {
		return nil, err
	}
	now, records, err := about(ctx, x.queue, letters)
	if err != nil {
		return nil, err
	}
	var out []LetterRow
	for i, l := range now {
		x.renew(rows[i].Seq, l)
		if l != nil && m.Selects(l) {
			out = append(out, LetterRow{l.Seq, rows[i].OrderNo, l.FiledAt, kindOf(l), isPending(intents[i], records[i])})
		}
	}
	return out, nil
}
