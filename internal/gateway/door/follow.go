package door

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// follower reads the end of the results for everybody who waits. It runs while somebody
// does.
type follower struct {
	d *Door

	mu      sync.Mutex // guards what follows
	users   int        // waits and feeds
	run     *run       // nil = nobody waits
	waiters map[string][]*waiter
	active  time.Time // when somebody came, or news did
	wake    chan struct{}
}

// run is the time in which somebody waits without a break.
type run struct {
	ready  chan struct{} // closed once recent.last is known
	recent recent
	news   chan struct{} // closed when recent grows; then there is another one
	remade bool          // the results were made anew meanwhile
}

const (
	// lookEvery is the time between two looks at the results, and longestLook where
	// nothing has happened for ten times as long.
	lookEvery   = 50 * time.Millisecond
	longestLook = 500 * time.Millisecond
	// checkEvery is the time between two checks whether the results were made anew.
	checkEvery = 5 * time.Second
)

func (f *follower) init(d *Door) {
	f.d, f.waiters, f.wake = d, make(map[string][]*waiter), make(chan struct{}, 1)
}

// enter counts a user and starts the follower for the first one. The results after
// recent.last are seen once ready is closed.
func (f *follower) enter() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	f.active = time.Now()
	if f.run == nil {
		f.run = &run{ready: make(chan struct{}), news: make(chan struct{})}
		r := f.run
		f.d.run(func() { f.serve(r) })
	}
	select {
	case f.wake <- struct{}{}: // ends a long pause
	default:
	}
	return f.run
}

func (f *follower) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
}

// over ends the run if nobody waits any more.
func (f *follower) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users > 0 {
		return false
	}
	f.run = nil
	return true
}

// serve looks at the results until nobody waits any more. What fails is tried again: the
// broker may be away for a while.
func (f *follower) serve(r *run) {
	ctx := f.d.ctx
	checked := time.Now()
	for anchored := f.anchor(ctx, r); ; {
		if !f.pause(ctx) || f.over() {
			return
		}
		if !anchored {
			anchored = f.anchor(ctx, r)
			continue
		}
		_ = f.d.q.Results().Walk(ctx, r.recent.last+1, queue.ToTheEnd, func(page []*settle.Message) error {
			f.take(r, page)
			return nil
		})
		if time.Since(checked) > checkEvery {
			checked = time.Now()
			anchored = f.still(ctx, r)
		}
	}
}

// anchor finds the end of the results. It returns false if the broker does not answer.
func (f *follower) anchor(ctx context.Context, r *run) bool {
	last, err := queue.LastResult(ctx, f.d.q)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.recent = recent{from: last, last: last}
	select {
	case <-r.ready: // everybody looks again
		r.remade = true
		for _, ws := range f.waiters {
			for _, w := range ws {
				w.notify(nil)
			}
		}
		f.wakeFeeds(r)
	default:
		close(r.ready)
	}
	return true
}

// still reports whether the results end where the run has come to, or later. A stream
// that was made anew, or restored from an older copy, ends before.
func (f *follower) still(ctx context.Context, r *run) bool {
	last, err := queue.LastResult(ctx, f.d.q)
	return err != nil || last >= r.recent.last
}

// take passes a page of records to those who wait for them.
func (f *follower) take(r *run, page []*settle.Message) {
	results := f.d.q.Results()
	entries := make([]*entry, len(page))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range page {
		entries[i] = &entry{msg: m}
		for _, w := range f.waiters[results.Token(m)] {
			w.notify(entries[i])
		}
	}
	f.active = time.Now()
	r.recent.add(entries)
	f.wakeFeeds(r)
}

// wakeFeeds wakes the feeds. The caller holds mu.
func (f *follower) wakeFeeds(r *run) {
	close(r.news)
	r.news = make(chan struct{})
}

// pause waits until the next look. It returns false when the door closes.
func (f *follower) pause(ctx context.Context) bool {
	f.mu.Lock()
	d := min(max(time.Since(f.active)/10, lookEvery), longestLook)
	f.mu.Unlock()
	began := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-f.wake:
	}
	return settle.Sleep(ctx, lookEvery-time.Since(began)) == nil
}

// waiter waits for records of one order_no.
type waiter struct {
	token string
	news  chan *entry // the newest; nil = look again
}

// notify replaces the news that the waiter has not taken.
func (w *waiter) notify(e *entry) {
	select {
	case <-w.news:
	default:
	}
	w.news <- e
}

// await registers a waiter. The follower tells it of each record of the order_no that is
// stored after ready is closed, or the newest of several.
func (f *follower) await(w *waiter) (ready <-chan struct{}) {
	r := f.enter()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters[w.token] = append(f.waiters[w.token], w)
	return r.ready
}

func (f *follower) forget(w *waiter) {
	f.leave()
	f.mu.Lock()
	defer f.mu.Unlock()
	left := slices.DeleteFunc(f.waiters[w.token], func(other *waiter) bool { return other == w })
	if f.waiters[w.token] = left; len(left) == 0 {
		delete(f.waiters, w.token)
	}
}

// entry is a record as the follower read it. It is decoded at most once, and only if
// somebody wants it.
type entry struct {
	msg    *settle.Message
	once   sync.Once
	record settle.Entry // its Record is nil if this program cannot read it
}

func (e *entry) read() settle.Entry {
	e.once.Do(func() {
		if got, err := queue.DecodeRecord(e.msg); err == nil {
			e.record = got
		}
	})
	return e.record
}

// mostKept bounds how many records a follower keeps. Feeds that are farther behind read
// the stream.
const mostKept = 1024

// recent is the end of the results: the records after sequence from, up to last.
type recent struct {
	from, last uint64
	kept       []*entry
}

// add adds a page of records.
func (r *recent) add(page []*entry) {
	if len(page) == 0 {
		return
	}
	r.kept, r.last = append(r.kept, page...), page[len(page)-1].msg.Seq
	if over := len(r.kept) - mostKept; over > 0 {
		r.from = r.kept[over-1].msg.Seq
		r.kept = slices.Clone(r.kept[over:]) // frees the others
	}
}

// after returns the records after a sequence; none if some of them may be missing.
func (r *recent) after(seq uint64) []*entry {
	if seq < r.from {
		return nil
	}
	i, _ := slices.BinarySearchFunc(r.kept, seq+1, func(e *entry, seq uint64) int { return cmp.Compare(e.msg.Seq, seq) })
	return slices.Clone(r.kept[i:])
}
