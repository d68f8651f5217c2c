package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// flights is how many chunks are looked up and published at once.
const flights = 4

// checkpointEvery is how often progress is written down.
const checkpointEvery = time.Second

// ErrCancelled is returned for an import that a person has withdrawn.
var ErrCancelled = errors.New("the import was cancelled; --retry-failed enqueues what was withdrawn again")

// ErrOtherContent is returned where a batch's name is taken by another file.
var ErrOtherContent = errors.New("the batch belongs to other content or another mapping; choose another --batch")

// ErrInterrupted is returned where rows could not be stored; the same import
// goes on behind the last one that was confirmed.
var ErrInterrupted = errors.New("stopped; run the same command again, it goes on behind the last confirmed row and enqueues nothing twice")

// Published is an import that came to its end: what became of its rows, and
// what there is to wait for.
type Published struct {
	Summary
	f *File
	// awaited are the rows whose intents are this import's and not known to be
	// settled, by number; records up to after say nothing about them.
	awaited set
	waits   int
	after   uint64
	// foreign counts the rows whose order is pending by another import.
	foreign int
}

// publisher is one run of an import.
type publisher struct {
	f   *File
	q   *queue.Queue
	out *Published
	imp *books.Import

	skip    int  // rows that an earlier run dealt with
	again   bool // the import was complete before
	records bool // there are results to look up
	pending atomic.Bool
	limiter *rate.Limiter
	piece   int
	saved   time.Time
}

// Publish reads a checked file again and publishes its rows. Rows whose orders
// are known are recognised by order_no and body, and not enqueued again. The
// summary is right for what was done also where an error is returned.
func (f *File) Publish(ctx context.Context, q *queue.Queue, checked Summary) (*Published, error) {
	p := &publisher{f: f, q: q, out: &Published{Summary: checked, f: f}, piece: chunkRows}
	if err := p.begin(ctx); err != nil {
		return p.out, err
	}
	if f.o.Rate > 0 {
		p.piece = max(1, min(chunkRows, int(f.o.Rate/5)))
		p.limiter = rate.NewLimiter(rate.Limit(f.o.Rate), p.piece)
	}
	err := ordered(ctx, flights, func(ctx context.Context, submit func(func(context.Context) ([]verdict, error)) error) error {
		_, err := f.scan(ctx, func(rows []Row) error {
			return submit(func(ctx context.Context) ([]verdict, error) { return p.publish(ctx, rows) })
		})
		return err
	}, func(vs []verdict) error { return p.apply(ctx, vs) })
	if errors.Is(err, ErrCancelled) { // what was stored after the cancellation looked
		_, cancelErr := books.CancelBatch(ctx, q, f.Batch, "enqueue")
		return p.out, errors.Join(err, cancelErr)
	}
	if err == nil && ctx.Err() == nil {
		return p.out, p.save(ctx)
	}
	// An interrupted run's progress is written down, too.
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return p.out, errors.Join(err, p.save(save))
}

// begin reads what is known of the batch, or claims its name.
func (p *publisher) begin(ctx context.Context) error {
	last, err := books.LastResult(ctx, p.q)
	if err != nil {
		return err
	}
	counts, err := p.q.Count(ctx)
	if err != nil {
		return err
	}
	p.records, p.out.after = counts.Results > 0, last
	if p.imp, err = books.ReadImport(ctx, p.q, p.f.Batch); err != nil {
		return err
	}
	if p.imp == nil {
		p.imp = &books.Import{Batch: p.f.Batch, File: cmp.Or(p.f.o.Path, p.f.o.File), Content: p.f.Content, Fingerprint: p.f.Fingerprint,
			Mapping: p.f.o.Mapping.canonical(), Format: string(p.out.Format), Encoding: p.out.Encoding, Delimiter: p.out.Delimiter, Rows: p.out.Rows, StartedAt: time.Now().UTC(), FirstResult: last}
		err := books.SaveImport(ctx, p.q, p.imp)
		if !errors.Is(err, books.ErrImportChanged) {
			return err
		}
		if p.imp, err = books.ReadImport(ctx, p.q, p.f.Batch); err != nil || p.imp == nil {
			return errors.Join(err, books.ErrImportChanged)
		}
	}
	return p.resume()
}

func (p *publisher) resume() error {
	switch {
	case p.imp.Fingerprint != p.f.Fingerprint:
		return fmt.Errorf("batch %s (%s of %s): %w", p.imp.Batch, p.imp.File, p.imp.StartedAt.Format(time.RFC3339), ErrOtherContent)
	case !p.imp.CancelledAt.IsZero() && !p.f.o.RetryFailed:
		return fmt.Errorf("batch %s, %s: %w", p.imp.Batch, p.imp.CancelledAt.Format(time.RFC3339), ErrCancelled)
	}
	p.imp.CancelledAt = time.Time{}
	p.again = p.imp.Done > 0 && p.imp.Complete()
	p.pending.Store(p.again)
	if p.again || p.f.o.RetryFailed {
		p.imp.FirstResult = p.out.after
		return nil
	}
	p.skip, p.out.Resumed = p.imp.Done, p.imp.Done
	if p.skip > 0 {
		p.out.after = p.imp.FirstResult
	}
	for fate, n := range p.imp.Counts {
		p.out.count(Fate(fate), n)
	}
	p.out.Stored = 0 // by this run
	return nil
}

// verdict is what became of one row.
type verdict struct {
	number int
	fate   Fate
	ours   bool // the pending intent is this import's
	note   string
	err    error // stops the import
}

// publish looks a chunk's orders up and publishes those that are new.
func (p *publisher) publish(ctx context.Context, rows []Row) ([]verdict, error) {
	out := make([]verdict, 0, len(rows))
	for start := 0; start < len(rows); start += p.piece {
		piece, err := p.publishPiece(ctx, rows[start:min(start+p.piece, len(rows))])
		if out = append(out, piece...); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (p *publisher) publishPiece(ctx context.Context, rows []Row) ([]verdict, error) {
	out := make([]verdict, len(rows))
	var open []int
	for i := range rows {
		out[i].number = rows[i].Number
		switch {
		case rows[i].Number <= p.skip:
		case p.f.problem(&rows[i]) != nil:
			if !p.f.o.SkipInvalid {
				return nil, fmt.Errorf("the file changed after it was checked: %w", rows[i].Err)
			}
			out[i].fate = Invalid
		default:
			open = append(open, i)
		}
	}
	statuses := make([]books.OrderStatus, len(open))
	if p.records || p.pending.Load() {
		var err error
		if statuses, err = p.lookUp(ctx, rows, open, p.pending.Load()); err != nil {
			return nil, err
		}
	}
	var full room
	for try := 0; len(open) > 0; try++ {
		var err error
		if open, err = p.settle(ctx, rows, open, statuses, out); err != nil || len(open) == 0 {
			return out, err
		}
		why := fmt.Errorf("%s:%d: order %s: %w", p.f.o.File, rows[open[0]].Line, rows[open[0]].OrderNo, out[open[0]].err)
		switch {
		case errors.Is(why, queue.ErrUnreachable):
			return nil, why
		case isFull(why):
			try = 0
			if err := full.await(ctx, p, why); err != nil {
				return nil, err
			}
		case try == maxTries:
			return nil, fmt.Errorf("%w: %w", why, ErrInterrupted)
		case !sleep(ctx, retryPause<<try):
			return nil, ctx.Err()
		}
		if statuses, err = p.lookUp(ctx, rows, open, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// A row that could not be stored is tried so often again, the pauses doubling:
// a broker may be failing over.
const (
	maxTries   = 4
	retryPause = 250 * time.Millisecond
)

func (p *publisher) lookUp(ctx context.Context, rows []Row, open []int, pending bool) ([]books.OrderStatus, error) {
	numbers := make([]string, len(open))
	for k, i := range open {
		numbers[k] = rows[i].OrderNo
	}
	if pending {
		return books.OrderStatuses(ctx, p.q, numbers)
	}
	words, err := p.q.LastWords(ctx, numbers)
	statuses := make([]books.OrderStatus, len(words))
	for i := range words {
		statuses[i].LastWord = words[i]
	}
	return statuses, err
}

// settle decides on the open rows, publishes what is to be published, and
// returns those that are still open.
func (p *publisher) settle(ctx context.Context, rows []Row, open []int, statuses []books.OrderStatus, out []verdict) ([]int, error) {
	var intents []settle.Intent
	var index []int
	for k, i := range open {
		v, publish := p.decide(&rows[i], &statuses[k])
		if out[i] = v; publish {
			intents, index = append(intents, p.intent(&rows[i], statuses[k].Entry)), append(index, i)
		}
	}
	if len(intents) == 0 {
		return nil, nil
	}
	if p.limiter != nil {
		if err := p.limiter.WaitN(ctx, len(intents)); err != nil {
			return nil, err
		}
	}
	var left, taken []int
	for k, r := range p.q.PublishMany(ctx, intents) {
		i := index[k]
		switch {
		case errors.Is(r.Err, settle.ErrTooLarge), errors.Is(r.Err, settle.ErrSwallowed):
			out[i].fate, out[i].note = Failed, r.Err.Error()
		case r.Err != nil:
			out[i].err = r.Err
			left = append(left, i)
		case r.Published == settle.AlreadyPending:
			taken = append(taken, i)
		case r.Published == settle.AlreadyKnown:
			out[i].fate = AlreadyKnown
		}
	}
	if len(taken) == 0 {
		return left, ctx.Err()
	}
	// Where one order is pending others are likely to be: they are looked up
	// first from now on.
	p.pending.Store(true)
	again, err := p.lookUp(ctx, rows, taken, true)
	if err != nil {
		return nil, err
	}
	for k, i := range taken {
		v, publish := p.decide(&rows[i], &again[k])
		if publish { // it was settled or removed in between
			v.err = errors.New("the order's intent came and went")
			left = append(left, i)
		}
		out[i] = v
	}
	return left, nil
}

// decide is an import's policy on what order.Admit finds: a row against what is
// known of its order_no. A certain failure lets another intent follow; all else
// does not.
func (p *publisher) decide(row *Row, st *books.OrderStatus) (v verdict, publish bool) {
	v = verdict{number: row.Number}
	hash, rec := row.Order.BodyHash(), st.Record
	known := order.Admit(rec, "", hash) // the row has no id before it is published
	conflict := func(with string) (verdict, bool) {
		v.fate, v.note = Conflict, "the order_no belongs to another order, which is "+with+"; correct the row or give it another number"
		return v, false
	}
	settled := func() (verdict, bool) {
		v.fate = Settled(rec.Outcome())
		return v, false
	}
	other := known.Bodies == order.OtherBody
	waits := st.Pending != nil && !rec.Settles(st.Pending.ID)
	switch {
	case st.Unreadable != nil:
		v.fate, v.note = Failed, st.Unreadable.Error()
		return v, false
	case known.Standing == order.AcceptedBefore && other:
		return conflict("accepted")
	case known.Standing == order.AcceptedBefore: // whatever else may be pending
		return settled()
	case waits && differs(st.Pending.BodyHash, hash):
		return conflict("pending")
	case waits:
		v.fate, v.ours = AlreadyPending, p.ours(st.Pending.ID, row)
		return v, false
	}
	switch known.Standing {
	case order.NothingKnown:
		if p.again && row.Number <= p.imp.Done {
			v.fate, v.note = Forgotten, "imported before, and nothing is known of it any more"
			return v, false
		}
		v.fate = Stored
		return v, true
	case order.OpenBefore:
		if other {
			return conflict("pending")
		}
		v.fate, v.ours = AlreadyPending, p.ours(rec.IntentID, row)
		return v, false
	case order.DoubtBefore:
		if other {
			return conflict("unknown: nobody knows whether it was created")
		}
		return settled()
	case order.FailedBefore:
		if rec.BodyHash != hash {
			v.fate = Corrected
			return v, true
		}
		if !p.f.o.RetryFailed {
			return settled()
		}
	}
	v.fate = Retried // it failed, or a person allowed whoever comes next
	return v, true
}

// differs: both bodies are known, and not the same.
func differs(a, b string) bool { return a != "" && a != b }

// intent names the submission. One that follows a failure is named after it,
// too: with the same name it would pass for the submission that failed.
func (p *publisher) intent(row *Row, over settle.Entry) settle.Intent {
	id := p.f.Batch + ":" + strconv.Itoa(row.Number)
	if over.Record != nil {
		id += ":after-" + strconv.FormatUint(over.Seq, 10)
	}
	in := settle.Intent{
		OrderNo: row.OrderNo, Body: row.Order.Canonical(), Batch: p.f.Batch, Deadline: p.f.o.Deadline,
		ID: id, Source: p.f.o.File + ":" + strconv.Itoa(row.Line),
	}
	if p.f.o.Trace != nil {
		in.Traceparent = p.f.o.Trace(in.OrderNo, id)
	}
	return in
}

func (p *publisher) ours(id string, row *Row) bool {
	number, ok := rowOf(id, p.f.Batch)
	return ok && number == row.Number
}

// apply takes over what became of a chunk, in the file's order.
func (p *publisher) apply(ctx context.Context, vs []verdict) error {
	o := p.out
	for _, v := range vs {
		if v.number <= p.skip {
			o.await(v.number)
			continue
		}
		o.count(v.fate, 1)
		switch v.fate {
		case Stored, Corrected, Retried, AlreadyKnown:
			o.await(v.number)
		case AlreadyPending:
			if v.ours {
				o.await(v.number)
			} else {
				o.foreign++
			}
		}
		if v.note != "" && len(o.Errors) < p.f.o.MaxErrors {
			o.Errors = append(o.Errors, fmt.Sprintf("%s: row %d: %s: %s", p.f.o.File, v.number, v.fate, v.note))
		}
	}
	if n := len(vs); n > 0 && vs[n-1].number > p.skip {
		p.imp.Done = max(p.imp.Done, vs[n-1].number)
		if p.f.o.Progress != nil {
			p.f.o.Progress(vs[n-1].number)
		}
	}
	if time.Since(p.saved) < checkpointEvery {
		return nil
	}
	return p.save(ctx)
}

func (p *Published) await(number int) {
	if !p.awaited.has(number) {
		p.awaited.add(number)
		p.waits++
	}
}

// save writes the progress down. Two runs of one import at the same time do no
// harm: each row's submission has one name.
func (p *publisher) save(ctx context.Context) error {
	p.saved = time.Now()
	if p.again && p.out.Stored == 0 { // nothing new: what is remembered stays
		return nil
	}
	p.imp.Counts = make(map[string]int, len(p.out.Fates))
	for fate, n := range p.out.Fates {
		p.imp.Counts[string(fate)] = n
	}
	for {
		err := books.SaveImport(ctx, p.q, p.imp)
		if !errors.Is(err, books.ErrImportChanged) {
			return err
		}
		now, err := books.ReadImport(ctx, p.q, p.f.Batch)
		switch {
		case err != nil:
			return err
		case now == nil: // removed by hand
			p.imp = p.imp.Renewed()
		case !now.CancelledAt.IsZero():
			return fmt.Errorf("batch %s: %w", p.f.Batch, ErrCancelled)
		case now.Done > p.imp.Done:
			p.imp = now
			return nil
		default:
			p.imp = p.imp.After(now)
		}
	}
}
