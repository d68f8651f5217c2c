package door

import (
	"slices"
	"sync"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

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

// after returns the records after a sequence. ok is false if some of them may be missing.
func (r *recent) after(seq uint64) (page []*entry, ok bool) {
	if seq < r.from {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(r.kept, seq+1, func(e *entry, seq uint64) int {
		switch {
		case e.msg.Seq < seq:
			return -1
		case e.msg.Seq > seq:
			return 1
		default:
			return 0
		}
	})
	return slices.Clone(r.kept[i:]), true
}
