package console

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// batchCount counts the orders of one import by their present outcome.
type batchCount struct {
	Outcomes [order.OutcomeUnknown + 1]int
	// Conflicts counts orders that were not sent, because their number belongs to
	// another order. Elsewhere counts orders of which another submission has the outcome since.
	Conflicts, Elsewhere int
}

// Total is the number of orders with an outcome, conflicts included.
func (c *batchCount) Total() int {
	n := c.Conflicts
	for _, k := range c.Outcomes {
		n += k
	}
	return n
}

// batches counts outcomes by import. It reads each result once, by its sequence, and
// only while somebody looks. A later result of an order replaces the one that was
// counted: a byte for each row, and a hash of each order that is not accepted, tell
// which that was.
type batches struct {
	queue *queue.Queue
	log   zerolog.Logger
	wake  chan struct{}

	reading sync.Mutex // one reading of the list at a time
	list    []*imports.Import
	listed  time.Time
	files   map[string]string // what people call the imports in list, by batch
	asked   time.Time         // when a name that is not in files was last looked for

	mu     sync.Mutex
	looked time.Time
	next   uint64    // the sequence to go on from; 0 = nothing was read yet
	stream time.Time // when the stream was created
	behind bool
	empty  time.Time // the queue and the waiting room were empty then, and what was settled before is counted; zero = they were not
	seed   maphash.Seed
	names  map[string]uint32 // index in all
	all    []*batchRows
	open   map[uint64]place // of the orders that are not accepted, or were replayed
	// refused holds hashes of the orders and imports that were counted as a conflict, or elsewhere.
	refused map[uint64]struct{}
}

// batchRows is one import as it was counted.
type batchRows struct {
	batchCount
	rows []order.Outcome // by row number
	// extra holds orders whose row is not known, because they were replayed.
	extra []order.Outcome
}

const (
	isExtra = 1 << 31
	// maxRowGap bounds how far a result may be ahead of those that were counted by their
	// rows: any producer can name a row. What is further ahead is counted as extra.
	maxRowGap = 1 << 16
)

// forgetAfter is how long after the last look the counts are dropped.
const forgetAfter = 10 * time.Minute

func newBatches(q *queue.Queue, log zerolog.Logger) *batches {
	b := &batches{queue: q, log: log, wake: make(chan struct{}, 1)}
	b.reset()
	return b
}

func (b *batches) reset() {
	b.next, b.behind, b.empty, b.seed = 0, true, time.Time{}, maphash.MakeSeed()
	b.names, b.all, b.open, b.refused = make(map[string]uint32), nil, make(map[uint64]place), make(map[uint64]struct{})
}

// look returns the count of an import, when the queue and the waiting room were empty before
// it was counted (zero = they were not), and whether there are results that were not counted
// yet.
func (b *batches) look(batch string) (c batchCount, empty time.Time, behind bool) {
	poke(b.wake)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = time.Now()
	if i, ok := b.names[batch]; ok {
		c = b.all[i].batchCount
	}
	return c, b.empty, b.behind
}

// imports lists what is remembered, the latest first. It reads once for all viewers, at
// most once a second.
func (b *batches) imports(ctx context.Context) ([]*imports.Import, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if time.Since(b.listed) < freshFor {
		return b.list, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := imports.Imports(ctx, b.queue)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b *imports.Import) int { return b.StartedAt.Compare(a.StartedAt) })
	b.list, b.listed, b.files = list, time.Now(), make(map[string]string, len(list))
	for _, imp := range list {
		b.files[imp.Batch], _ = importName(imp)
	}
	return list, nil
}

// namesFor is how long names of imports are believed to be all that there are.
const namesFor = 10 * time.Second

// name returns what people call an import: its file, or the batch where no import of
// that name is known.
func (b *batches) name(ctx context.Context, batch string) (name string, known bool) {
	b.reading.Lock()
	name, known = b.files[batch]
	again := !known && batch != "" && b.queue.Conn.Connected() && time.Since(b.asked) > namesFor
	if again {
		b.asked = time.Now()
	}
	b.reading.Unlock()
	if again {
		_, _ = b.imports(ctx) // a batch is a name, too
		return b.name(ctx, batch)
	}
	return cmp.Or(name, batch), known
}

// run follows the results while somebody looks, until ctx ends.
func (b *batches) run(ctx context.Context) {
	rounds(ctx, b.wake, func() {
		b.mu.Lock()
		idle := time.Since(b.looked)
		if idle > forgetAfter && b.next > 0 {
			b.reset()
		}
		b.mu.Unlock()
		if idle < watchFor && b.queue.Conn.Connected() {
			if err := b.follow(ctx); err != nil && ctx.Err() == nil && !away(err) {
				b.log.Warn().Err(err).Msg("results could not be followed for the console's imports")
			}
		}
	})
}

// follow reads the results that were recorded since the last call, for a while.
func (b *batches) follow(ctx context.Context) error {
	empty := time.Now()
	if counts, err := b.queue.Census.Count(ctx); err != nil || counts.Pending+counts.Waiting > 0 {
		empty = time.Time{}
	}
	results := b.queue.Results()
	state, err := results.State(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if !b.stream.Equal(state.Created) { // another stream counts from 1 again
		b.reset()
		b.stream = state.Created
	}
	next := max(b.next, 1)
	b.mu.Unlock()
	if next <= state.LastSeq {
		until := time.Now().Add(followFor)
		err = results.Walk(ctx, next, state.LastSeq, func(page []*settle.Message) error {
			b.take(page)
			if time.Now().After(until) {
				return errLater
			}
			return nil
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.behind, b.empty = err != nil, time.Time{}
	switch {
	case err == nil:
		b.next, b.empty = state.LastSeq+1, empty
	case errors.Is(err, errLater):
		err = nil
	}
	return err
}

// take counts a page of results.
func (b *batches) take(page []*settle.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range page {
		b.next = m.Seq + 1
		entry, err := queue.DecodeRecord(m)
		if err != nil {
			continue // the audit names what cannot be read
		}
		b.count(entry.Record)
	}
}

// count counts a record in place of the order's earlier ones.
func (b *batches) count(r *order.Record) {
	for i := range r.Conflicts {
		b.refuse(r, &r.Conflicts[i])
	}
	for _, e := range r.Earlier {
		key := maphash.String(b.seed, r.OrderNo+"\x00"+e.Batch+"\x00")
		if _, counted := b.refused[key]; !counted && e.Batch != "" && e.Batch != r.Batch {
			b.refused[key] = struct{}{}
			b.all[b.number(e.Batch)].Elsewhere++
		}
	}
	b.settle(r)
}

// refuse counts an intent that was refused for its body, in its own import: as a conflict
// if the order was accepted, and until then with the order's outcome. A correction of an
// order in doubt shares that doubt.
func (b *batches) refuse(r *order.Record, c *order.Conflict) {
	key := maphash.String(b.seed, r.OrderNo+"\x00"+c.Batch) // a replay of it may be listed, too
	if _, counted := b.refused[key]; counted || c.Batch == "" {
		return
	}
	shared := order.OutcomeNone
	switch {
	case r.ConflictOf(c.IntentID) != nil:
		b.refused[key] = struct{}{}
		b.all[b.number(c.Batch)].Conflicts++
	case c.Batch != r.Batch: // settle counts the order for its own import
		shared = r.Outcome()
	}
	at, counted := b.open[key]
	if !counted && shared == order.OutcomeNone {
		return
	}
	if !counted {
		at.batch = b.number(c.Batch)
		in := b.all[at.batch]
		at.row = isExtra | uint32(len(in.extra))
		in.extra = append(in.extra, order.OutcomeNone)
		b.open[key] = at
	}
	b.set(at, shared)
}

// settle counts the present outcome of an order in place of the one before.
func (b *batches) settle(r *order.Record) {
	key := maphash.String(b.seed, r.OrderNo)
	was, counted := b.open[key]
	if r.Batch == "" {
		if counted {
			b.set(was, order.OutcomeNone)
			delete(b.open, key)
		}
		return
	}
	now := place{batch: b.number(r.Batch)}
	at := b.all[now.batch]
	row, own := status.RowOf(r.IntentID, r.Batch)
	own = own && row <= len(at.rows)+maxRowGap
	switch {
	case own:
		now.row = uint32(row)
	case counted && was.batch == now.batch:
		now = was
	default:
		now.row = isExtra | uint32(len(at.extra))
		at.extra = append(at.extra, order.OutcomeNone)
	}
	if counted && was != now {
		b.set(was, order.OutcomeNone)
	}
	b.set(now, r.Outcome())
	if own && r.Outcome() == order.OutcomeAccepted {
		delete(b.open, key) // it stays accepted
	} else {
		b.open[key] = now
	}
}

// set changes the outcome that is counted at a place.
func (b *batches) set(p place, o order.Outcome) {
	at := b.all[p.batch]
	list, i := &at.rows, int(p.row)
	if p.row&isExtra != 0 {
		list, i = &at.extra, int(p.row&^isExtra)
	}
	if i >= len(*list) {
		*list = append(*list, make([]order.Outcome, i+1-len(*list))...)
	}
	at.Outcomes[(*list)[i]]--
	(*list)[i] = o
	at.Outcomes[o]++
	at.Outcomes[order.OutcomeNone] = 0
}

// number returns the index of an import in all.
func (b *batches) number(batch string) uint32 {
	i, ok := b.names[batch]
	if !ok {
		i = uint32(len(b.all))
		b.names[batch], b.all = i, append(b.all, &batchRows{})
	}
	return i
}

// place is where an order was counted.
type place struct {
	batch uint32
	row   uint32 // isExtra marks an index in extra
}
