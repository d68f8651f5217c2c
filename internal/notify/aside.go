package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// asidePrefix begins the keys of the fleet's bucket that hold an Aside, notify.aside.<slot>.
	asidePrefix = "notify.aside."
	// mostAside is how many events can be aside. There are as many slots, and no more than
	// the broker gives in one answer. While all are taken, no event is put aside: a receiver
	// that refuses so much fails as a whole, and the events wait in their order.
	mostAside = 1000
	// asideEvery is how often the sender looks for events to try again, and reads what
	// persons changed.
	asideEvery = 5 * time.Second
	// asideWait and longestAside are the times between two attempts for such an event.
	asideWait, longestAside = 30 * time.Second, time.Hour
)

// Aside is an event that the receiver refuses while it takes others. It is tried again
// beside them. A parked one is not, until a person says so.
type Aside struct {
	OrderNo string `json:"order_no"`
	// Type and ID are those of the event, Outcome is what it tells.
	Type    string `json:"type"`
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	// Position is the result's place among all results.
	Position uint64 `json:"position"`
	Parked   bool   `json:"parked"`
	// Tries counts the attempts, FirstAt and LastAt are the times of the first and the last
	// one, and NextAt is that of the next one.
	Tries   int       `json:"tries"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
	NextAt  time.Time `json:"next_at,omitzero"`
	// Status is that of the last answer, since StatusSince; 0 = none. Answer is its
	// beginning, or why there is none, and then the end of a pause that it asked for.
	Status      int       `json:"status,omitempty"`
	StatusSince time.Time `json:"status_since"`
	Answer      string    `json:"answer,omitempty"`
	// Token is under which the record is filed.
	Token string `json:"token"`

	slot     int
	revision uint64
	written  time.Time // when this process wrote it
}

// trials returns the attempts until now.
func (a *Aside) trials() trials {
	return trials{tries: a.Tries, first: a.FirstAt, last: a.LastAt, status: a.Status, statusSince: a.StatusSince}
}

// failed returns the event after its last attempt. It says when the next one is due.
func (a Aside) failed(t trials, r reply, parked bool) *Aside {
	a.Parked = parked
	a.Tries, a.FirstAt, a.LastAt, a.Status, a.StatusSince = t.tries, t.first.UTC(), t.last.UTC(), t.status, t.statusSince.UTC()
	a.Answer, a.NextAt = r.said, time.Time{}
	if !a.Parked {
		a.NextAt = a.LastAt.Add(min(max(asideWait, a.LastAt.Sub(a.FirstAt)), longestAside))
	}
	return &a
}

// ReadAside returns all events that are aside, in the order of the results. With several
// replicas, a follower that lags may answer.
func ReadAside(ctx context.Context, q *queue.Queue) ([]*Aside, error) {
	entries, err := q.Bucket().Last(ctx, asidePrefix+"*")
	if err != nil {
		return nil, err
	}
	var all []*Aside
	for _, e := range entries {
		a := new(Aside)
		slot, bad := strconv.Atoi(strings.TrimPrefix(e.Key, asidePrefix))
		if bad = errors.Join(bad, json.Unmarshal(e.Value, a)); bad != nil {
			return nil, fmt.Errorf("bucket %s, key %s: %w; a newer version wrote it, run that one", q.Bucket().Name(), e.Key, bad)
		}
		a.slot, a.revision = slot, e.Revision
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *Aside) int { return cmp.Compare(a.Position, b.Position) })
	return all, nil
}

// Retry makes the sender try an event again within some seconds. Error: settle.ErrStale if the
// event is gone or was changed since it was read.
func (a Aside) Retry(ctx context.Context, q *queue.Queue) error {
	a.Parked, a.NextAt = false, time.Now().UTC()
	a.Tries, a.FirstAt, a.StatusSince = 0, a.NextAt, a.NextAt
	_, err := a.store(ctx, q)
	return err
}

// store writes the event into its slot, and returns it as it is then. Error: settle.ErrStale.
func (a Aside) store(ctx context.Context, q *queue.Queue) (*Aside, error) {
	revision, err := q.Bucket().Swap(ctx, a.key(), a, a.revision)
	a.revision, a.written = revision, time.Now()
	return &a, err
}

func (a *Aside) key() string { return asidePrefix + strconv.Itoa(a.slot) }

// asides are the events that are aside, as the sender knows them. An Aside in it is never
// changed, but replaced.
type asides struct {
	queue *queue.Queue

	mu   sync.Mutex
	all  map[int]*Aside // by slot
	busy map[int]bool   // slots whose event is being written, or is in a lane
}

func newAsides(q *queue.Queue) *asides {
	return &asides{queue: q, all: make(map[int]*Aside), busy: make(map[int]bool)}
}

// read reads them again. What this process wrote a moment ago stays: a replica that lags
// may not know it.
func (s *asides) read(ctx context.Context) error {
	found, err := ReadAside(ctx, s.queue)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[int]*Aside, len(found))
	for _, a := range found {
		now[a.slot] = a
	}
	for slot, a := range s.all {
		if newer := now[slot]; newer == nil && time.Since(a.written) < 2*asideEvery || newer != nil && a.revision >= newer.revision {
			now[slot] = a
		}
	}
	s.all = now
	return nil
}

// due returns the events whose time has come, the longest due first, and marks them as busy. No
// more than most are busy then.
func (s *asides) due(now time.Time, most int) (all []*Aside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot, a := range s.all {
		if !s.busy[slot] && !a.Parked && !a.NextAt.After(now) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *Aside) int { return a.NextAt.Compare(b.NextAt) })
	all = all[:min(len(all), max(most-len(s.busy), 0))]
	for _, a := range all {
		s.busy[a.slot] = true
	}
	return all
}

// release ends the work on an event.
func (s *asides) release(a *Aside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, a.slot)
}

// counts returns how many events are tried again, and how many are parked.
func (s *asides) counts() (waiting, parked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if a.Parked {
			parked++
		} else {
			waiting++
		}
	}
	return waiting, parked
}

// of returns the events of a record that are aside.
func (s *asides) of(token string) (all []*Aside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if a.Token == token {
			all = append(all, a)
		}
	}
	return all
}

// errNoSlot means that as many events are aside as can be.
var errNoSlot = errors.New("too many events are refused already")

// add keeps an event in a free slot. It returns once the broker has it.
func (s *asides) add(ctx context.Context, a Aside) error {
	for {
		var free bool
		if a.slot, free = s.slot(); !free {
			return errNoSlot
		}
		stored, err := a.store(ctx, s.queue)
		s.note(stored, err)
		if !errors.Is(err, settle.ErrStale) {
			return err
		}
		if err := s.read(ctx); err != nil { // another process has used the slot
			return err
		}
	}
}

// slot reserves a free slot. Which one is left to chance, so that two processes that do not
// know of each other yet rarely take the same one.
func (s *asides) slot() (slot int, free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for from, i := rand.IntN(mostAside), 0; i < mostAside; i++ {
		slot = (from + i) % mostAside
		if s.all[slot] == nil && !s.busy[slot] {
			s.busy[slot] = true
			return slot, true
		}
	}
	return 0, false
}

// change replaces an event. If somebody changed it meanwhile, their word stays.
func (s *asides) change(ctx context.Context, a *Aside) error {
	stored, err := a.store(ctx, s.queue)
	s.note(stored, err)
	if errors.Is(err, settle.ErrStale) {
		return s.read(ctx)
	}
	return err
}

// note ends the work on an event that was stored, unless err says that it was not.
func (s *asides) note(a *Aside, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, a.slot)
	if err == nil {
		s.all[a.slot] = a
	}
}

// remove takes an event away that was delivered, or that a later one replaced. If somebody
// changed it meanwhile, it is read again, and found out again.
func (s *asides) remove(ctx context.Context, a *Aside) error {
	err := s.queue.Bucket().Delete(ctx, a.key(), a.revision)
	if err != nil && !errors.Is(err, settle.ErrStale) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.all[a.slot]; now != nil && now.revision == a.revision {
		delete(s.all, a.slot)
	}
	return nil
}
