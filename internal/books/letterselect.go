package books

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

// selector is a matcher that knows the kinds of an index at one moment.
type selector struct {
	*LetterMatcher
	byKind []bool
}

// selector needs x.mu.
func (x *LetterIndex) selector(m *LetterMatcher) selector {
	s := selector{m, make([]bool, len(x.kinds.kinds))}
	for id, k := range x.kinds.kinds {
		s.byKind[id] = x.kinds.n[id] > 0 && m.kind(k)
	}
	return s
}

func (s selector) selects(c *letterChunk, i int) bool {
	e := &c.entries[i]
	switch {
	case uint64(e.kind) >= uint64(len(s.byKind)) || !s.byKind[e.kind]: // also what no record names
		return false
	case (!s.begin.IsZero() || !s.end.IsZero()) && !s.filed(c.filedAt(i)):
		return false
	}
	return s.orderNo == nil || s.orderNo.matches(c.name(i))
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
	if n := len(x.chunks); n > 0 {
		out.Last = x.chunks[n-1].last()
	}
	counts := x.kinds.n
	if m.orderNo != nil || !m.begin.IsZero() || !m.end.IsZero() {
		counts = make([]int, len(x.kinds.kinds))
		for _, c := range x.chunks {
			for i := range c.entries {
				if s.selects(c, i) {
					counts[c.entries[i].kind]++
				}
			}
		}
	}
	groups := make(map[LetterGroup]int)
	for id, n := range counts {
		if n > 0 && s.byKind[id] {
			k := &x.kinds.kinds[id]
			groups[LetterGroup{Outcome: k.Outcome, Status: k.Status, Reason: k.Reason, Said: k.Said}] += n
			out.Total += n
		}
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

// row needs x.mu.
func (x *LetterIndex) row(c *letterChunk, i int) LetterRow {
	return LetterRow{Seq: c.seqOf(i), OrderNo: string(c.name(i)), FiledAt: c.filedAt(i).UTC(), LetterKind: x.kinds.kinds[c.entries[i].kind]}
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

// chunkOf returns the first chunk with an entry at or after seq.
func (x *LetterIndex) chunkOf(seq uint64) int {
	i, _ := slices.BinarySearchFunc(x.chunks, seq, func(c *letterChunk, seq uint64) int { return cmp.Compare(c.last(), seq) })
	return i
}

// from returns at most n selected letters, the first at or after seq.
func (x *LetterIndex) from(s selector, seq uint64, n int) (out []LetterRow) {
	for _, c := range x.chunks[x.chunkOf(seq):] {
		for i := range c.entries {
			if c.seqOf(i) >= seq && s.selects(c, i) {
				if out = append(out, x.row(c, i)); len(out) == n {
					return out
				}
			}
		}
	}
	return out
}

// before returns at most n selected letters, the last before seq.
func (x *LetterIndex) before(s selector, seq uint64, n int) (out []LetterRow) {
	if seq == 0 {
		return nil
	}
	for j := min(x.chunkOf(seq), len(x.chunks)-1); j >= 0 && len(out) < n; j-- {
		c := x.chunks[j]
		for i := len(c.entries) - 1; i >= 0 && len(out) < n; i-- {
			if c.seqOf(i) < seq && s.selects(c, i) {
				out = append(out, x.row(c, i))
			}
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
