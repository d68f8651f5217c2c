package deadletter

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// LetterIndex knows which dead letters are stored: about 50 bytes and the order number for each. Follow keeps it up
// to date with the letters, and Rows with the records that name them: what it counts of a letter is what the record
// said when one of them read it. It is safe for concurrent use.
type LetterIndex struct {
	queue *queue.Queue

	following sync.Mutex // one Follow at a time
	follower

	mu        sync.RWMutex
	entries   []letterEntry // by their sequences, also letters that no record names
	kinds     map[LetterKind]*letterCount
	kindBytes int
	// unnamed are the letters that no record named when they were read: a worker is about to write that record,
	// or they are inert.
	unnamed map[uint64]bool
	tokens  map[uint64]string // of the letters that are not filed under their order_no

	of      uint64 // messages in the stream
	whole   bool   // the index was complete once since the stream was created
	behind  bool   // letters that are stored are not in it yet
	version uint64 // counts changes
}

// letterEntry is one message of the dead-letter stream.
type letterEntry struct {
	seq     uint64
	filed   int64        // Unix milliseconds
	kind    *letterCount // nil = no record names it
	orderNo string
}

// letterCount counts the letters of one kind.
type letterCount struct {
	LetterKind
	n int
}

// NewLetterIndex returns an empty index.
func NewLetterIndex(q *queue.Queue) *LetterIndex {
	x := &LetterIndex{queue: q}
	x.clear()
	x.behind = false
	return x
}

// clear empties the index for another stream.
func (x *LetterIndex) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries, x.whole, x.behind = nil, false, true
	x.kinds, x.kindBytes = make(map[LetterKind]*letterCount), 0
	x.unnamed, x.tokens = make(map[uint64]bool), make(map[uint64]string)
	x.version++
}

// add appends a page of letters. now is what their records say of them, nil for those that no record names. Their
// sequences follow those that are known.
func (x *LetterIndex) add(page, now []*settle.Letter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, l := range page {
		kind := x.count(l.Seq, now[i])
		l = cmp.Or(now[i], l)
		if l.OrderNo == "" { // of a header that was cut the token remains
			l.OrderNo, _ = order.OrderNoFromToken(l.FiledUnder)
		}
		if l.Token() != settle.FileToken(order.Token(l.OrderNo)) {
			x.tokens[l.Seq] = l.Token()
		}
		// A copy: the name must not keep the letter's header in memory.
		x.entries = append(x.entries, letterEntry{l.Seq, l.FiledAt.UnixMilli(), kind, strings.Clone(l.OrderNo)})
	}
	x.version++
}

// renew notes what the record of a letter says of it by now; nil = it does not name the letter.
func (x *LetterIndex) renew(seq uint64, now *settle.Letter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := x.at(seq)
	if i == len(x.entries) || x.entries[i].seq != seq {
		return
	}
	e := &x.entries[i]
	if was := e.kind; was != nil || now != nil {
		e.kind = x.count(seq, now)
		if x.forget(seq, was); e.kind != was {
			x.version++
		}
	}
}

// at returns the place of the first entry at or after seq.
func (x *LetterIndex) at(seq uint64) int {
	i, _ := slices.BinarySearchFunc(x.entries, seq, func(e letterEntry, seq uint64) int { return cmp.Compare(e.seq, seq) })
	return i
}

// removeIf removes the entries between two sequences that gone reports, which it is asked in their order.
func (x *LetterIndex) removeIf(first, last uint64, gone func(seq uint64) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	begin, n := x.at(first), len(x.entries)
	end := begin
	for ; end < n && x.entries[end].seq <= last; end++ {
	}
	kept := slices.DeleteFunc(x.entries[begin:end], func(e letterEntry) bool {
		if !gone(e.seq) {
			return false
		}
		delete(x.tokens, e.seq)
		x.forget(e.seq, e.kind)
		return true
	})
	if x.entries = slices.Delete(x.entries, begin+len(kept), end); len(x.entries) != n {
		x.version++
	}
}

// removeGone removes the sequences that the broker lists as gone, oldest first.
func (x *LetterIndex) removeGone(gone []uint64) {
	x.removeIf(0, math.MaxUint64, func(seq uint64) bool {
		for len(gone) > 0 && gone[0] < seq {
			gone = gone[1:]
		}
		return len(gone) > 0 && gone[0] == seq
	})
}

// The kinds that are told apart. There are few unless a rule puts parts of the order
// into the reason.
const (
	maxKinds     = 20_000
	maxKindBytes = 4 << 20
	// OtherReasons stands for the reasons beyond those limits, and OtherImports for
	// the imports.
	OtherReasons = "(other reasons)"
	OtherImports = "(other imports)"
)

// count counts a letter with what its record says of it, nil = it does not name the letter, and returns its kind.
func (x *LetterIndex) count(seq uint64, now *settle.Letter) *letterCount {
	if now == nil {
		x.unnamed[seq] = true
		return nil
	}
	return x.countKind(kindOf(now))
}

func (x *LetterIndex) countKind(k LetterKind) *letterCount {
	full := func(n int) bool { return len(x.kinds) >= n*maxKinds || x.kindBytes >= n*maxKindBytes }
	if x.kinds[k] == nil && full(1) {
		k.Reason, k.Said = OtherReasons, ""
		if x.kinds[k] == nil && full(2) {
			k.Batch = OtherImports
		}
	}
	c := x.kinds[k]
	if c == nil {
		c = &letterCount{LetterKind: k}
		x.kinds[k] = c
		x.kindBytes += k.bytes()
	}
	c.n++
	return c
}

// forget takes back what count did.
func (x *LetterIndex) forget(seq uint64, c *letterCount) {
	if c == nil {
		delete(x.unnamed, seq)
		return
	}
	if c.n--; c.n == 0 {
		delete(x.kinds, c.LetterKind)
		x.kindBytes -= c.bytes()
	}
}

func (k *LetterKind) bytes() int { return len(k.Reason) + len(k.Said) + len(k.Batch) }

// LetterTotals is what an index knows of all dead letters.
type LetterTotals struct {
	// Letters counts those that records name, Outcomes by outcome.
	Letters  int
	Outcomes [order.OutcomeUnknown + 1]int
	// Read and Of say how many messages of the stream were read.
	Read, Of uint64
	// Whole says that every letter was read once. Otherwise the first reading goes on.
	Whole bool
	// Behind says that letters which are stored are missing.
	Behind bool
}

// Totals returns what the index knows of all letters.
func (x *LetterIndex) Totals() LetterTotals {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t := LetterTotals{Read: uint64(len(x.entries)), Of: max(x.of, uint64(len(x.entries))), Whole: x.whole, Behind: x.behind}
	for _, c := range x.kinds {
		t.Letters += c.n
		t.Outcomes[c.Outcome] += c.n
	}
	return t
}
