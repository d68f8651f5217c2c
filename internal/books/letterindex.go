package books

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// LetterIndex knows which dead letters are stored, compactly: about 30 bytes and the
// order number for each. Follow keeps it up to date with the letters, and Rows with the records that name them:
// what it counts of a letter is what the record said when one of them read it. It is safe for concurrent use.
type LetterIndex struct {
	queue *queue.Queue

	following sync.Mutex // one Follow at a time
	follower

	mu     sync.RWMutex
	chunks []*letterChunk // by their sequences
	kinds  kindTable
	stored int // entries, also of letters that no record names
	// unnamed are the letters that no record named when they were read: a worker is about to write that record,
	// or they are inert.
	unnamed map[uint64]bool
	tokens  map[uint64]string // of the letters that are not filed under their order_no

	of      uint64 // messages in the stream
	whole   bool   // the index was complete once since the stream was created
	behind  bool   // letters that are stored are not in it yet
	version uint64 // counts changes
}

// NewLetterIndex returns an empty index.
func NewLetterIndex(q *queue.Queue) *LetterIndex {
	x := &LetterIndex{queue: q}
	x.clear()
	x.behind = false
	return x
}

// chunkSize is how many entries a chunk has at most.
const chunkSize = 1024

// letterChunk holds entries whose sequences and times lie near to each other.
type letterChunk struct {
	base    uint64 // sequence
	filed   int64  // Unix milliseconds
	entries []letterEntry
	names   []byte // order numbers, one after the other
}

// letterEntry is one message of the dead-letter stream.
type letterEntry struct {
	seq   uint32 // after the chunk's base
	filed int32  // milliseconds after the chunk's
	kind  uint32 // in the table of kinds
	end   uint32 // of the order number in names
}

// kindUnnamed is the kind of a letter that no record names.
const kindUnnamed uint32 = math.MaxUint32

func (c *letterChunk) seqOf(i int) uint64 { return c.base + uint64(c.entries[i].seq) }
func (c *letterChunk) last() uint64       { return c.seqOf(len(c.entries) - 1) }

func (c *letterChunk) name(i int) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = c.entries[i-1].end
	}
	return c.names[begin:c.entries[i].end]
}

func (c *letterChunk) filedAt(i int) time.Time {
	return time.UnixMilli(c.filed + int64(c.entries[i].filed))
}

// fits reports whether an entry can be added.
func (c *letterChunk) fits(seq uint64, filed int64) bool {
	return len(c.entries) < chunkSize && seq-c.base <= math.MaxUint32 &&
		filed-c.filed <= math.MaxInt32 && filed-c.filed >= math.MinInt32 && len(c.names) < 1<<20
}

// add appends a page of letters. now is what their records say of them, nil for those that no record names. Their
// sequences follow those that are known.
func (x *LetterIndex) add(page, now []*settle.Letter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, l := range page {
		kind := x.takeKind(l.Seq, now[i])
		l = cmp.Or(now[i], l)
		if l.OrderNo == "" { // of a header that was cut the token remains
			l.OrderNo, _ = order.OrderNoFromToken(l.FiledUnder)
		}
		if l.Token() != settle.FileToken(order.Token(l.OrderNo)) {
			x.tokens[l.Seq] = l.Token()
		}
		x.append(l.Seq, kind, l.FiledAt, l.OrderNo)
	}
	x.version++
}

// renew notes what the record of a letter says of it by now; nil = it does not name the letter.
func (x *LetterIndex) renew(seq uint64, now *settle.Letter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.chunkOf(seq)
	if at == len(x.chunks) {
		return
	}
	c := x.chunks[at]
	i, found := slices.BinarySearchFunc(c.entries, seq, func(e letterEntry, seq uint64) int { return cmp.Compare(c.base+uint64(e.seq), seq) })
	if !found {
		return
	}
	was := c.entries[i].kind
	x.forgetKind(seq, was)
	if c.entries[i].kind = x.takeKind(seq, now); c.entries[i].kind != was { // an equal kind gets the number that was given back
		x.version++
	}
}

func (x *LetterIndex) append(seq uint64, kind uint32, at time.Time, name string) {
	filed := at.UnixMilli()
	n := len(x.chunks)
	if n == 0 || !x.chunks[n-1].fits(seq, filed) {
		if n > 0 {
			x.chunks[n-1].seal()
		}
		x.chunks = append(x.chunks, &letterChunk{base: seq, filed: filed})
		n++
	}
	c := x.chunks[n-1]
	c.names = append(c.names, name...)
	c.entries = append(c.entries, letterEntry{seq: uint32(seq - c.base), filed: int32(filed - c.filed), kind: kind, end: uint32(len(c.names))})
	x.stored++
}

// seal gives back what append had reserved.
func (c *letterChunk) seal() {
	c.entries, c.names = append(make([]letterEntry, 0, len(c.entries)), c.entries...), append(make([]byte, 0, len(c.names)), c.names...)
}

// removeIf removes the entries between two sequences that gone reports.
func (x *LetterIndex) removeIf(first, last uint64, gone func(seq uint64) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	begin, _ := slices.BinarySearchFunc(x.chunks, first, func(c *letterChunk, seq uint64) int { return cmp.Compare(c.last(), seq) })
	empty := false
	for i := begin; i < len(x.chunks) && x.chunks[i].base <= last; i++ {
		c := x.chunks[i]
		if next := x.without(c, func(seq uint64) bool { return seq >= first && seq <= last && gone(seq) }); next != c {
			x.chunks[i] = next
			empty = empty || len(next.entries) == 0
			x.version++
		}
	}
	if empty {
		x.chunks = slices.DeleteFunc(x.chunks, func(c *letterChunk) bool { return len(c.entries) == 0 })
	}
}

// removeGone removes the sequences that the broker lists as gone, oldest first.
func (x *LetterIndex) removeGone(gone []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	empty := false
	for i, c := range x.chunks {
		begin, _ := slices.BinarySearch(gone, c.base)
		end, found := slices.BinarySearch(gone, c.last())
		if found {
			end++
		}
		within := gone[begin:end]
		if uint64(len(c.entries)+len(within)) == c.last()-c.base+1 {
			continue // each sequence is either stored or gone
		}
		next := x.without(c, func(seq uint64) bool {
			_, found := slices.BinarySearch(within, seq)
			return found
		})
		if next != c {
			x.chunks[i] = next
			empty = empty || len(next.entries) == 0
			x.version++
		}
	}
	if empty {
		x.chunks = slices.DeleteFunc(x.chunks, func(c *letterChunk) bool { return len(c.entries) == 0 })
	}
}

// without returns c, or a new chunk if entries of c are gone.
func (x *LetterIndex) without(c *letterChunk, gone func(seq uint64) bool) *letterChunk {
	next := c
	for i, e := range c.entries {
		seq := c.seqOf(i)
		switch {
		case gone(seq):
			if next == c {
				next = &letterChunk{base: c.base, filed: c.filed, entries: slices.Clone(c.entries[:i])}
				if i > 0 {
					next.names = slices.Clone(c.names[:c.entries[i-1].end])
				}
			}
			x.stored--
			delete(x.tokens, seq)
			x.forgetKind(seq, e.kind)
		case next != c:
			next.names = append(next.names, c.name(i)...)
			e.end = uint32(len(next.names))
			next.entries = append(next.entries, e)
		}
	}
	if next != c {
		next.seal()
	}
	return next
}

// takeKind counts a letter with what its record says of it, nil = it does not name the letter, and returns its kind.
func (x *LetterIndex) takeKind(seq uint64, now *settle.Letter) uint32 {
	if now == nil {
		x.unnamed[seq] = true
		return kindUnnamed
	}
	return x.kinds.take(kindOf(now))
}

func (x *LetterIndex) forgetKind(seq uint64, kind uint32) {
	if kind == kindUnnamed {
		delete(x.unnamed, seq)
	} else {
		x.kinds.give(kind)
	}
}

// clear empties the index for another stream.
func (x *LetterIndex) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.chunks, x.stored, x.whole, x.behind = nil, 0, false, true
	x.unnamed, x.tokens = make(map[uint64]bool), make(map[uint64]string)
	x.kinds.clear()
	x.version++
}

// kindTable counts the letters of each kind.
type kindTable struct {
	kinds []LetterKind
	n     []int
	free  []uint32
	ids   map[uint64][]uint32 // by hash
	seed  maphash.Seed
	bytes int
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

func (t *kindTable) clear() {
	*t = kindTable{ids: make(map[uint64][]uint32), seed: maphash.MakeSeed()}
}

func (t *kindTable) hash(k LetterKind) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	var numbers [9]byte
	binary.LittleEndian.PutUint64(numbers[:], uint64(k.Status))
	numbers[8] = byte(k.Outcome)
	_, _ = h.Write(numbers[:]) // never fails
	_, _ = h.WriteString(k.Reason)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(k.Said)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(k.Batch)
	return h.Sum64()
}

func (t *kindTable) find(k LetterKind) (id uint32, hash uint64, known bool) {
	hash = t.hash(k)
	for _, id := range t.ids[hash] {
		if t.kinds[id] == k {
			return id, hash, true
		}
	}
	return 0, hash, false
}

// take counts one letter more of a kind, and returns the kind's number.
func (t *kindTable) take(k LetterKind) uint32 {
	id, hash, known := t.find(k)
	full := func(n int) bool { return len(t.kinds)-len(t.free) >= n*maxKinds || t.bytes >= n*maxKindBytes }
	if !known && full(1) {
		k.Reason, k.Said = OtherReasons, ""
		if id, hash, known = t.find(k); !known && full(2) {
			k.Batch = OtherImports
			id, hash, known = t.find(k)
		}
	}
	if !known {
		if free := len(t.free); free > 0 {
			id, t.free = t.free[free-1], t.free[:free-1]
		} else {
			id = uint32(len(t.kinds))
			t.kinds, t.n = append(t.kinds, LetterKind{}), append(t.n, 0)
		}
		t.kinds[id] = k
		t.ids[hash] = append(t.ids[hash], id)
		t.bytes += len(k.Reason) + len(k.Said) + len(k.Batch)
	}
	t.n[id]++
	return id
}

// give counts one letter less.
func (t *kindTable) give(id uint32) {
	if t.n[id]--; t.n[id] > 0 {
		return
	}
	k := t.kinds[id]
	hash := t.hash(k)
	if ids := slices.DeleteFunc(t.ids[hash], func(other uint32) bool { return other == id }); len(ids) > 0 {
		t.ids[hash] = ids
	} else {
		delete(t.ids, hash)
	}
	t.bytes -= len(k.Reason) + len(k.Said) + len(k.Batch)
	t.kinds[id] = LetterKind{}
	t.free = append(t.free, id)
}

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
	t := LetterTotals{Read: uint64(x.stored), Of: max(x.of, uint64(x.stored)), Whole: x.whole, Behind: x.behind}
	for id, n := range x.kinds.n {
		t.Letters += n
		t.Outcomes[x.kinds.kinds[id].Outcome] += n
	}
	return t
}
