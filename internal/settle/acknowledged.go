package settle

import (
	"slices"
	"sync"
	"time"
)

// maxAcknowledged bounds what a process remembers of the intents that it acknowledged.
const maxAcknowledged = 100_000

// acknowledged holds the intents that this process settled and acknowledged: the worker
// puts them in, and the trimmer takes those that linger in the log.
type acknowledged struct {
	mu      sync.Mutex
	on      link // the connection that the intents are about
	intents []acknowledgedIntent
	seqs    map[uint64]bool // of the intents
}

// acknowledgedIntent is one of them. They are kept in the order of their times.
type acknowledgedIntent struct {
	seq uint64
	at  time.Time
}

// put notes an intent. Another run of the broker may give the sequences of the former one
// to other intents.
func (a *acknowledged) put(seq uint64, at time.Time, on link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on != on || a.seqs == nil {
		a.on, a.intents, a.seqs = on, nil, make(map[uint64]bool)
	}
	if len(a.intents) < maxAcknowledged {
		a.intents = append(a.intents, acknowledgedIntent{seq, at})
		a.seqs[seq] = true
	}
}

// take takes the sequences of the intents that were acknowledged before a time, on this
// connection.
func (a *acknowledged) take(before time.Time, on link) (seqs []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on != on {
		return nil
	}
	n := 0
	for n < len(a.intents) && !a.intents[n].at.After(before) {
		seqs = append(seqs, a.intents[n].seq)
		delete(a.seqs, a.intents[n].seq)
		n++
	}
	a.intents = slices.Delete(a.intents, 0, n)
	return seqs
}

// has reports whether this process settled an intent over this connection.
func (a *acknowledged) has(seq uint64, on link) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.on == on && a.seqs[seq]
}

// forget forgets the intents up to a sequence: they have left the log.
func (a *acknowledged) forget(upTo uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.intents = slices.DeleteFunc(a.intents, func(i acknowledgedIntent) bool {
		if i.seq <= upTo {
			delete(a.seqs, i.seq)
		}
		return i.seq <= upTo
	})
}
