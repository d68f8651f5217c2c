package sandbox

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"
)

const (
	bookShards = 64
	// recordsPerPage and bytesPerPage are the page sizes of a shard. Pages never move,
	// so growing to millions of orders copies nothing. They hold no pointers, so the
	// garbage collector skips them.
	recordsPerPage = 512
	bytesPerPage   = 32 << 10
)

// book holds every order_no that was posted with a valid signature. An order takes
// about a hundred bytes.
type book struct {
	shards  [bookShards]bookShard
	seen    atomic.Int64 // distinct order_no
	once    atomic.Int64 // distinct order_no created at least once
	more    atomic.Int64 // distinct order_no created more than once
	created atomic.Int64 // creations
}

type bookShard struct {
	mu    sync.Mutex
	index map[uint64]uint32 // hash of order_no to 1 + number of its record
	pages [][]record
	names [][]byte
	count uint32
}

// record is one order. Times are in nanoseconds since 1970; 0 = never.
type record struct {
	body        Hash // of the first creation; before that, of the last attempt
	first, last int64
	next        uint32 // 1 + number of the next record with the same hash
	page, at    uint32 // where its order_no is
	length      uint32
	attempts    uint32
	faults      uint32
	created     uint32
	refused     bool
}

func newBook() *book {
	b := &book{}
	for i := range b.shards {
		b.shards[i].index = make(map[uint64]uint32)
	}
	return b
}

// attempt is one properly signed request to create an order.
type attempt struct {
	orderNo  []byte
	hash     uint64
	body     Hash
	now      time.Time
	settings *Settings
}

// decision is the result of an attempt.
type decision struct {
	answer  Answer
	fault   Fault
	slow    bool
	draws   draws
	id      uint64 // of the order, where there is one
	created uint32 // how often the order was created by now
	creates bool   // it was created by this attempt
}

// attempt counts the attempt, draws its fault and decides whether to create the
// order. It is atomic: concurrent attempts for one order_no run one after another.
func (b *book) attempt(a attempt) decision {
	shard := a.hash % bookShards
	sh := &b.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()

	number, r := sh.find(a.hash, a.orderNo)
	if r == nil {
		number, r = sh.add(a.hash, a.orderNo)
		b.seen.Add(1)
	}
	r.attempts++
	s := a.settings
	d := decision{draws: attemptDraws(s.Seed, a.hash, r.attempts), id: uint64(number)*bookShards + shard}
	if most := s.Faults.MaxPerOrder; most == 0 || int64(r.faults) < int64(most) {
		d.fault, d.slow = s.Faults.hits(d.draws)
	}
	if d.fault != NoFault || d.slow {
		r.faults++
	}
	if d.fault.before() {
		d.answer = d.fault.answer()
		return d
	}
	d.answer = b.create(r, a)
	d.created, d.creates = r.created, d.answer == AnswerCreated
	if d.fault != NoFault {
		d.answer = d.fault.answer()
	}
	return d
}

// late carries out an attempt that was held up on its way.
func (b *book) late(a attempt) (created bool) {
	sh := &b.shards[a.hash%bookShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, r := sh.find(a.hash, a.orderNo)
	return r != nil && b.create(r, a) == AnswerCreated
}

// create creates the order or returns why not.
func (b *book) create(r *record, a attempt) Answer {
	s := a.settings
	switch {
	case s.Faults.refuses(s.Seed, a.hash):
		r.refused = true
		return AnswerRefused
	case r.created > 0 && s.Duplicates == ReturnOriginal && r.body == a.body:
		return AnswerOriginal
	case r.created > 0 && s.Duplicates != CreateTwice:
		return AnswerDuplicate
	}
	r.created++
	r.last = a.now.UnixNano()
	b.created.Add(1)
	switch r.created {
	case 1:
		r.first, r.body = r.last, a.body
		b.once.Add(1)
	case 2:
		b.more.Add(1)
	}
	return AnswerCreated
}

// lookup returns the entry of an order.
func (b *book) lookup(orderNo string) (Entry, bool) {
	hash := hashOrderNo([]byte(orderNo))
	sh := &b.shards[hash%bookShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, r := sh.find(hash, []byte(orderNo))
	if r == nil {
		return Entry{}, false
	}
	return r.entry(), true
}

// each calls yield for every order, in no particular order. It may miss orders that
// arrive while it runs. It holds no lock while yield runs.
func (b *book) each(yield func(orderNo string, e Entry) bool) {
	type row struct {
		orderNo string
		entry   Entry
	}
	rows := make([]row, 0, recordsPerPage)
	for i := range b.shards {
		sh := &b.shards[i]
		for page := 0; ; page++ {
			rows = rows[:0]
			sh.mu.Lock()
			if page == len(sh.pages) {
				sh.mu.Unlock()
				break
			}
			for j := range sh.pages[page] {
				r := &sh.pages[page][j]
				rows = append(rows, row{string(sh.name(r)), r.entry()})
			}
			sh.mu.Unlock()
			for _, row := range rows {
				if !yield(row.orderNo, row.entry) {
					return
				}
			}
		}
	}
}

func (sh *bookShard) record(number uint32) *record {
	return &sh.pages[number/recordsPerPage][number%recordsPerPage]
}

func (sh *bookShard) name(r *record) []byte {
	return sh.names[r.page][r.at : r.at+r.length]
}

func (sh *bookShard) find(hash uint64, orderNo []byte) (uint32, *record) {
	for link := sh.index[hash]; link != 0; {
		r := sh.record(link - 1)
		if bytes.Equal(sh.name(r), orderNo) {
			return link - 1, r
		}
		link = r.next
	}
	return 0, nil
}

func (sh *bookShard) add(hash uint64, orderNo []byte) (uint32, *record) {
	number := sh.count
	sh.count++
	if number%recordsPerPage == 0 {
		sh.pages = append(sh.pages, make([]record, 0, recordsPerPage))
	}
	page := &sh.pages[len(sh.pages)-1]
	*page = append(*page, record{next: sh.index[hash], length: uint32(len(orderNo))})
	r := &(*page)[len(*page)-1]
	r.page, r.at = sh.keep(orderNo)
	sh.index[hash] = number + 1
	return number, r
}

// keep stores an order_no and returns its position.
func (sh *bookShard) keep(orderNo []byte) (page, at uint32) {
	last := len(sh.names) - 1
	if last < 0 || len(sh.names[last])+len(orderNo) > cap(sh.names[last]) {
		sh.names = append(sh.names, make([]byte, 0, max(bytesPerPage, len(orderNo))))
		last++
	}
	at = uint32(len(sh.names[last]))
	sh.names[last] = append(sh.names[last], orderNo...)
	return uint32(last), at
}

func (r *record) entry() Entry {
	e := Entry{
		Created:  int(r.created),
		Attempts: int(r.attempts),
		Faults:   int(r.faults),
		Refused:  r.refused,
		BodyHash: r.body,
	}
	if r.created > 0 {
		e.FirstAt, e.LastAt = time.Unix(0, r.first).UTC(), time.Unix(0, r.last).UTC()
	}
	return e
}
