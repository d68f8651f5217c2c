package deadletter

import (
	"context"
	"errors"
	"math"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// follower is how far an index has followed the stream. following guards it.
type follower struct {
	created time.Time // the stream's
	next    uint64    // the sequence to go on from
	sweep   uint64    // where a sweep goes on; 0 = there is none
	// quiet is when the next search for letters that are gone may begin.
	quiet time.Time
	begun time.Time // when the sweep began
	// back is how far the index went back last to read letters again.
	back uint64
}

// maxGaps is how many deleted sequences the broker may list at once, which takes
// about 8 bytes for each. Beyond that the letters are read again.
const maxGaps = 500_000

// gentle bounds what searching for letters that are gone may cost: a twentieth of
// the time.
const gentle = 20

// giveUpFor is how long a difference is left alone that reading does not explain.
const giveUpFor = 10 * time.Minute

// backFirst is how many sequences are read again first if letters are missing.
const backFirst = 1024

// errLater ends a walk early.
var errLater = errors.New("the rest follows")

// Follow brings the index up to date, for at most about d. more says that the rest
// needs another call, of half a second or more.
//
// New letters have higher sequences. Letters that are gone leave no trace, but the
// stream's count tells that there are such: up to the last sequence, the index must
// hold as many messages as the stream. If it holds more, the broker lists the
// sequences that are gone.
func (x *LetterIndex) Follow(ctx context.Context, d time.Duration) (more bool, err error) {
	x.following.Lock()
	defer x.following.Unlock()
	until := time.Now().Add(d)
	state, err := x.queue.Letters().State(ctx)
	if err != nil {
		return false, err
	}
	if !x.created.Equal(state.Created) || state.LastSeq+1 < x.next {
		x.clear()
		x.follower = follower{created: state.Created, next: 1}
	}
	x.note(func() { x.of = state.Messages })
	if err := x.lookAgain(ctx); err != nil {
		return false, err
	}
	if more, err = x.read(ctx, state, until); more || err != nil {
		return more, err
	}
	x.note(func() { x.whole, x.behind = true, false })
	if x.size() == state.Messages {
		x.back, x.sweep = 0, 0
		return false, nil
	}
	if x.sweep == 0 && time.Now().Before(x.quiet) {
		return false, nil
	}
	if state.Deleted > int(d/time.Microsecond) && state.Deleted <= maxGaps {
		return true, nil // the broker's list takes longer than d
	}
	if state.Deleted > maxGaps && x.size() > state.Messages || x.sweep != 0 {
		return x.reread(ctx, until)
	}
	return false, x.compare(ctx)
}

func (x *LetterIndex) note(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
}

func (x *LetterIndex) size() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return uint64(len(x.entries))
}

// read reads new letters.
func (x *LetterIndex) read(ctx context.Context, state queue.StreamState, until time.Time) (more bool, err error) {
	x.next = max(x.next, state.FirstSeq)
	if x.next > state.LastSeq {
		return false, nil
	}
	x.note(func() { x.behind = true })
	err = x.queue.Letters().Walk(ctx, x.next, state.LastSeq, func(page []*settle.Message) error {
		letters, now, err := joined(ctx, x.queue, page)
		if err != nil {
			return err
		}
		x.add(letters, now)
		x.next = page[len(page)-1].Seq + 1
		if time.Now().After(until) {
			return errLater
		}
		return nil
	})
	if errors.Is(err, errLater) {
		return true, nil
	}
	if err == nil {
		x.next = state.LastSeq + 1
	}
	return false, err
}

// mostAgain is how many letters that no record named are looked at again at a time.
const mostAgain = 64

// lookAgain looks whether records name letters by now that none named before. Of many it takes any.
func (x *LetterIndex) lookAgain(ctx context.Context) error {
	var seqs []uint64
	x.note(func() {
		for seq := range x.unnamed {
			if seqs = append(seqs, seq); len(seqs) == mostAgain {
				return
			}
		}
	})
	if len(seqs) == 0 {
		return nil
	}
	found, err := x.queue.Letters().Get(ctx, seqs)
	if err != nil {
		return err
	}
	letters, now, err := joined(ctx, x.queue, found) // one that is gone is noticed otherwise
	for i, l := range letters {
		if err == nil && now[i] != nil {
			x.renew(l.Seq, now[i])
		}
	}
	return err
}

// compare removes the letters that the broker lists as gone.
func (x *LetterIndex) compare(ctx context.Context) error {
	began := time.Now()
	gone, state, err := x.queue.Letters().Gaps(ctx)
	if err != nil {
		return err
	}
	if !x.created.Equal(state.Created) {
		return nil // the next call begins anew
	}
	if state.FirstSeq > 0 {
		x.removeIf(0, state.FirstSeq-1, func(uint64) bool { return true })
	}
	if state.Messages == 0 {
		x.removeIf(0, state.LastSeq, func(uint64) bool { return true })
	}
	x.removeGone(gone)
	x.quiet = time.Now().Add(gentle * time.Since(began))
	if state.LastSeq != x.next-1 || x.size() == state.Messages {
		return nil
	}
	// Letters are missing: a follower that lagged was asked, or a broker that was
	// killed has brought deleted ones back. They are probably young.
	if x.back >= x.next { // everything was read anew, and they are still missing
		x.back, x.quiet = 0, time.Now().Add(giveUpFor)
		return nil
	}
	x.back = max(backFirst, x.back*8)
	x.next -= min(x.back, x.next-1)
	x.removeIf(x.next, math.MaxUint64, func(uint64) bool { return true })
	return nil
}

// reread walks over the whole stream and removes what is not there.
func (x *LetterIndex) reread(ctx context.Context, until time.Time) (more bool, err error) {
	if x.sweep == 0 {
		x.sweep, x.begun = 1, time.Now()
	}
	err = x.queue.Letters().Walk(ctx, x.sweep, x.next-1, func(page []*settle.Message) error {
		x.keep(x.sweep, page[len(page)-1].Seq, page)
		x.sweep = page[len(page)-1].Seq + 1
		if time.Now().After(until) {
			return errLater
		}
		return nil
	})
	if errors.Is(err, errLater) {
		return true, nil
	}
	if err == nil {
		x.keep(x.sweep, x.next-1, nil)
		x.sweep, x.quiet = 0, time.Now().Add(gentle*time.Since(x.begun))
	}
	return false, err
}

// keep removes what is not in the page from a part of the index.
func (x *LetterIndex) keep(first, last uint64, page []*settle.Message) {
	stored := make(map[uint64]bool, len(page))
	for _, m := range page {
		stored[m.Seq] = true
	}
	x.removeIf(first, last, func(seq uint64) bool { return !stored[seq] })
}
