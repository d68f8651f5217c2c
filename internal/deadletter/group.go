package deadletter

import (
	"context"
	"slices"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Group says which dead letters an act is about. Letters that are filed later are
// never among them.
type Group struct {
	// Selects reports whether a letter belongs to the group; nil = all do.
	Selects func(*settle.Letter) bool
	// Last is the sequence of the last letter that can belong to the group.
	Last uint64
	// Seqs are the sequences of letters that were chosen one by one; nil = all that
	// match.
	Seqs []uint64
}

// Walk passes the letters of the group to visit, oldest first, at most 256 at a
// time. seen counts the letters of the page that do not belong to the group, too.
func (g Group) Walk(ctx context.Context, q *queue.Queue, visit func(page []*settle.Letter, seen int) error) error {
	if g.Seqs != nil {
		return g.walkChosen(ctx, q, visit)
	}
	return LetterPagesFrom(ctx, q, 1, g.Last, func(page []*settle.Letter) error {
		seen := len(page)
		return visit(g.filter(page), seen)
	})
}

// filter keeps the letters of the group.
func (g Group) filter(page []*settle.Letter) []*settle.Letter {
	if g.Selects == nil {
		return page
	}
	return slices.DeleteFunc(page, func(l *settle.Letter) bool { return !g.Selects(l) })
}

// chosenAtOnce is how many letters that were chosen one by one are read together.
const chosenAtOnce = 256

// walkChosen visits the letters that were chosen one by one.
func (g Group) walkChosen(ctx context.Context, q *queue.Queue, visit func(page []*settle.Letter, seen int) error) error {
	seqs := slices.DeleteFunc(slices.Sorted(slices.Values(g.Seqs)), func(seq uint64) bool { return seq > g.Last })
	for some := range slices.Chunk(seqs, chosenAtOnce) {
		stored, err := q.Letters().Get(ctx, some)
		if err != nil {
			return err
		}
		_, page, err := joined(ctx, q, stored)
		if err != nil {
			return err
		}
		page = slices.DeleteFunc(page, func(l *settle.Letter) bool { return l == nil })
		if err := visit(g.filter(page), len(some)); err != nil {
			return err
		}
	}
	return nil
}
