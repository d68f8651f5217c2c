package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// chunksInFlight is how many chunks an import looks up and publishes at once.
const chunksInFlight = 4

// checkpointEvery is the interval between two saves of the progress.
const checkpointEvery = time.Second

// Final reports whether an error of an import stays, however often one tries. A lane may be made
// meanwhile, and the need of an approval end.
func Final(err error) bool {
	for _, final := range []error{ErrCancelled, ErrOtherContent, ErrOtherTime, ErrOtherMapping} {
		if errors.Is(err, final) {
			return true
		}
	}
	_, canary := errors.AsType[*CanaryError](err)
	return canary
}

// ErrCancelled means that a person cancelled the import.
var ErrCancelled = errors.New("the import was cancelled; --retry-failed enqueues what was withdrawn again")

// ErrOtherContent means that the batch belongs to another file or mapping.
var ErrOtherContent = errors.New("the batch belongs to other content or another mapping; choose another --batch")

// ErrOtherTime means that orders of the import are pending with another time.
var ErrOtherTime = errors.New("another time for an import that is pending")

// ErrDirect means that the import may need an approval, and was to leave out the waiting
// room, where it would be held for that.
var ErrDirect = errors.New("imports need approval here, and wait for it in the waiting room: leave --direct out")

// ErrInterrupted means that rows could not be stored. The same import continues after
// the last confirmed row. Callers say what to do: some try again by themselves.
var ErrInterrupted = errors.New("stopped")

// Result is the result of an import: what became of its rows, and which orders to
// wait for.
type Result struct {
	Summary
	f *File
	// awaited holds the numbers of the rows whose intents belong to this import and
	// were not settled when the import looked. waits is their count. Their outcomes
	// are in the results after sequence number after.
	awaited set
	waits   int
	after   uint64
	// foreign counts the rows whose order another import enqueued and which is
	// still pending.
	foreign int
}

// publisher is one run of an import.
type publisher struct {
	f   *File
	q   *queue.Queue
	out *Result
	imp *imports.Import

	skip    int  // rows that an earlier run finished
	again   bool // an earlier run completed the import
	records bool // the results stream is not empty
	pending atomic.Bool
	lane    string // in which new intents wait; "" = none
	waiting set    // the rows whose intents waited when the import began
	limiter *rate.Limiter
	// approvals is what needs an approval here.
	approvals imports.ApprovalRule
	piece     int
	saved     time.Time
}

// Publish reads a checked file again and publishes its rows. It recognises known
// orders by order_no and body and does not enqueue them again. The returned summary
// is correct even if Publish returns an error.
func (f *File) Publish(ctx context.Context, q *queue.Queue, checked Summary) (*Result, error) {
	return f.publishFirst(ctx, q, checked, math.MaxInt)
}

// publishFirst is Publish for that many rows of the file. Publish goes on behind them.
func (f *File) publishFirst(ctx context.Context, q *queue.Queue, checked Summary, left int) (*Result, error) {
	p := &publisher{f: f, q: q, out: &Result{Summary: checked, f: f}, piece: chunkRows}
	if err := p.begin(ctx); err != nil {
		return p.out, err
	}
	if f.o.Begun != nil {
		if err := f.o.Begun(ctx); err != nil {
			return p.out, err
		}
	}
	if f.o.Rate > 0 {
		p.piece = max(1, min(chunkRows, int(f.o.Rate/5)))
		p.limiter = rate.NewLimiter(rate.Limit(f.o.Rate), p.piece)
	}
	err := ordered(ctx, chunksInFlight, func(ctx context.Context, submit func(func(context.Context) ([]rowResult, error)) error) error {
		_, err := f.scan(ctx, func(rows []Row) error {
			rows = rows[:min(left, len(rows))]
			if left -= len(rows); len(rows) == 0 {
				return nil
			}
			return submit(func(ctx context.Context) ([]rowResult, error) { return p.publish(ctx, rows) })
		})
		return err
	}, func(vs []rowResult) error { return p.apply(ctx, vs) })
	within := ctx
	if ctx.Err() != nil || err != nil && !errors.Is(err, ErrCancelled) { // an interrupted run saves its progress, too
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
	}
	if !errors.Is(err, ErrCancelled) {
		err = errors.Join(err, p.save(within))
	}
	if err == nil {
		err = p.storing(within, false)
	}
	if !errors.Is(err, ErrCancelled) {
		return p.out, err
	}
	_, cancelErr := imports.CancelBatch(within, q, f.Batch, "enqueue") // what was stored after the cancellation began
	if errors.Is(cancelErr, imports.ErrNotAwaited) {
		cancelErr = nil
	}
	return p.out, errors.Join(err, cancelErr)
}

// begin reads the state of the batch, or creates the batch.
func (p *publisher) begin(ctx context.Context) error {
	if err := p.chooseLane(ctx); err != nil {
		return err
	}
	if err := p.mayNeedApproval(ctx); err != nil {
		return err
	}
	if err := p.keepMapping(ctx); err != nil {
		return err
	}
	last, err := queue.LastResult(ctx, p.q)
	if err != nil {
		return err
	}
	counts, err := p.q.Census.Count(ctx)
	if err != nil {
		return err
	}
	p.records, p.out.after = counts.Results > 0, last
	if p.imp, err = imports.ReadImport(ctx, p.q, p.f.Batch); err != nil {
		return err
	}
	if p.imp == nil {
		fresh := &imports.Import{Batch: p.f.Batch, File: cmp.Or(p.f.o.Path, p.f.o.File), Content: p.f.Content, Fingerprint: p.f.Fingerprint,
			By: p.f.o.By, Columns: columnsOf(p.f.head.header), Rows: p.out.Rows, Storing: p.approvals.Imports(), StartedAt: time.Now().UTC(), FirstResult: last, NotBefore: p.f.o.NotBefore}
		p.f.o.note(fresh)
		fresh.Format, fresh.Encoding, fresh.Delimiter, fresh.Sheet = string(p.out.Format), p.out.Encoding, p.out.Delimiter, p.f.head.sheet // as they were found
		for p.imp == nil {
			err := imports.SaveImport(ctx, p.q, fresh)
			if !errors.Is(err, imports.ErrImportChanged) {
				p.imp = fresh
				return err
			}
			if p.imp, err = imports.ReadImport(ctx, p.q, p.f.Batch); err == nil && p.imp == nil {
				err = settle.Sleep(ctx, roomPause) // the replica that answered is behind
			}
			if err != nil {
				return err
			}
		}
	}
	if p.waiting, err = p.f.waitingRows(ctx, p.q); err != nil {
		return err
	}
	if err := p.resume(); err != nil {
		return err
	}
	if err := p.keepTime(ctx); err != nil {
		return err
	}
	return p.storing(ctx, true)
}

// storing notes whether a run stores orders. A worker must know when an import that may need
// an approval is whole, to judge all of it.
func (p *publisher) storing(ctx context.Context, on bool) error {
	if !p.approvals.Imports() || p.imp.Storing == on {
		return nil
	}
	p.imp.Storing = on
	return p.record(ctx, func(now *imports.Import) (over bool) {
		over = now.Storing == on
		p.imp = now
		p.imp.Storing = on
		return over
	})
}

// mayNeedApproval reads the rule for approvals.
func (p *publisher) mayNeedApproval(ctx context.Context) error {
	f, err := imports.ReadFeeding(ctx, p.q, 0)
	if err != nil {
		return err
	}
	p.approvals = f.Approvals.ReadRule()
	if p.approvals.Imports() && p.lane == "" {
		return fmt.Errorf("%w (%s)", ErrDirect, p.approvals.What())
	}
	return nil
}

// keepTime refuses another time for an import of which orders are pending: they keep
// the time that they were stored with. A time that is over means "now".
func (p *publisher) keepTime(ctx context.Context) error {
	now, given, known := time.Now(), p.f.o.NotBefore, p.imp.NotBefore
	if given.Equal(known) || !given.After(now) && !known.After(now) {
		return nil
	}
	left, err := status.Unsettled(ctx, p.q, p.imp.Batch)
	if err != nil {
		return err
	}
	if left > 0 {
		err := fmt.Errorf("batch %s: %w: %d orders are pending with the time %s, and this run says %s; to move them, cancel the import, then import it again with the new time, and say that cancelled orders are enqueued again",
			p.imp.Batch, ErrOtherTime, left, said(known), said(given))
		return &advised{err, fmt.Sprintf(": orderpost enqueue cancel %s, then --retry-failed", status.ShellWord(p.imp.Batch))}
	}
	p.imp.NotBefore = given
	return nil
}

// said formats a time before which orders are not sent.
func said(at time.Time) string {
	if at.IsZero() {
		return "at once"
	}
	return at.UTC().Format(time.RFC3339)
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
	p.out.Stored = 0 // counts this run only
	return nil
}

// rowResult is what became of one row.
type rowResult struct {
	number int
	fate   Fate
	ours   bool // the pending intent belongs to this import
	note   string
	other  *otherOrder // of a conflict
	at     time.Time   // before which the intent that this run published is not sent
	err    error       // stops the import unless a retry succeeds
}

// publish looks up the orders of a chunk and publishes the new ones.
func (p *publisher) publish(ctx context.Context, rows []Row) ([]rowResult, error) {
	out := make([]rowResult, 0, len(rows))
	for start := 0; start < len(rows); start += p.piece {
		piece, err := p.publishPiece(ctx, rows[start:min(start+p.piece, len(rows))])
		if out = append(out, piece...); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (p *publisher) publishPiece(ctx context.Context, rows []Row) ([]rowResult, error) {
	out := make([]rowResult, len(rows))
	var open []int
	for i := range rows {
		out[i].number = rows[i].Number
		switch {
		case rows[i].Number <= p.skip:
		case p.f.problem(&rows[i]) != nil:
			out[i].fate = Invalid
		default:
			open = append(open, i)
		}
	}
	statuses := make([]status.OrderStatus, len(open))
	if p.records || p.pending.Load() {
		var err error
		if statuses, err = p.lookUp(ctx, rows, open, p.pending.Load()); err != nil {
			return nil, err
		}
	}
	var full room
	for try := 0; len(open) > 0; try++ {
		var err error
		if open, err = p.publishOpen(ctx, rows, open, statuses, out); err != nil || len(open) == 0 {
			return out, err
		}
		why := fmt.Errorf("%s: order %s: %w", p.f.head.place(rows[open[0]].Line), rows[open[0]].OrderNo, out[open[0]].err)
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
		case settle.Sleep(ctx, retryPause<<try) != nil:
			return nil, ctx.Err()
		}
		if statuses, err = p.lookUp(ctx, rows, open, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// A row that could not be stored is retried with exponential backoff, because the
// broker may be failing over.
const (
	maxTries   = 4
	retryPause = 250 * time.Millisecond
)

func (p *publisher) lookUp(ctx context.Context, rows []Row, open []int, pending bool) ([]status.OrderStatus, error) {
	numbers := make([]string, len(open))
	for k, i := range open {
		numbers[k] = rows[i].OrderNo
	}
	if pending {
		return status.OrderStatuses(ctx, p.q, numbers)
	}
	words, err := p.q.Ledger.LastWords(ctx, numbers)
	if err != nil {
		return nil, err
	}
	statuses := make([]status.OrderStatus, len(words))
	var noted []string // a note does not say whether its intent is still stored
	var index []int
	for i := range words {
		if statuses[i].LastWord = words[i]; words[i].Record != nil && words[i].Record.Outcome() == order.OutcomeNone {
			noted, index = append(noted, numbers[i]), append(index, i)
		}
	}
	if len(noted) == 0 {
		return statuses, nil
	}
	whole, err := status.OrderStatuses(ctx, p.q, noted)
	if err != nil {
		return nil, err
	}
	for k, i := range index {
		statuses[i] = whole[k]
	}
	return statuses, nil
}

// publishOpen decides on the open rows and publishes those that need it. It returns
// the rows that are still open.
func (p *publisher) publishOpen(ctx context.Context, rows []Row, open []int, statuses []status.OrderStatus, out []rowResult) ([]int, error) {
	var intents []settle.Intent
	var index []int
	for k, i := range open {
		v, publish := p.decide(&rows[i], &statuses[k])
		if out[i] = v; publish {
			in := p.intent(&rows[i], statuses[k].Entry)
			intents, index, out[i].at = append(intents, in), append(index, i), in.NotBefore
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
		case r.Status == settle.AlreadyPending:
			taken = append(taken, i)
		case r.Status == settle.AlreadyKnown:
			out[i].fate, out[i].at = AlreadyKnown, time.Time{}
		}
	}
	if len(taken) == 0 {
		return left, ctx.Err()
	}
	// If one order is pending, others probably are. From now on, look up pending
	// intents first.
	p.pending.Store(true)
	again, err := p.lookUp(ctx, rows, taken, true)
	if err != nil {
		return nil, err
	}
	for k, i := range taken {
		v, publish := p.decide(&rows[i], &again[k])
		if publish { // the intent was settled or removed in between
			v.err = errors.New("the order's intent came and went")
			left = append(left, i)
		}
		out[i] = v
	}
	return left, nil
}

// decide is the import's policy on the facts of order.Admit. It returns what becomes
// of a row and whether to publish it. A new intent may follow only a certain failure
// or a person's permission.
func (p *publisher) decide(row *Row, st *status.OrderStatus) (v rowResult, publish bool) {
	v = rowResult{number: row.Number}
	hash, rec := row.Order.BodyHash(), st.Record
	known := order.Admit(rec, "", hash) // the row has no id before it is published
	conflict := func(is, hash, batch string) (rowResult, bool) {
		v.fate, v.other = Conflict, &otherOrder{*row, is, hash, batch}
		return v, false
	}
	settled := func() (rowResult, bool) {
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
		return conflict("accepted", rec.BodyHash, rec.Batch)
	case known.Standing == order.AcceptedBefore: // a pending intent changes nothing
		return settled()
	case waits && differs(st.Pending.BodyHash, hash):
		return conflict("pending", st.Pending.BodyHash, st.Pending.Batch)
	case waits:
		v.fate, v.ours = AlreadyPending, p.ours(st.Pending.ID, row)
		return v, false
	case p.waiting.has(row.Number): // or it was moved and settled since
		v.fate, v.ours = AlreadyPending, true
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
	case order.OpenBefore: // and the intent of the note is not stored any more: its stream was lost
		v.fate = Stored
		return v, true
	case order.DoubtBefore:
		if other {
			return conflict("unknown: nobody knows whether it was created", rec.BodyHash, rec.Batch)
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
	v.fate = Retried // it failed, or a person allowed another intent
	return v, true
}

// differs reports whether both hashes are known and different.
func differs(a, b string) bool { return a != "" && a != b }

// intent returns the intent of a row. The ID of an intent that follows a failure
// includes the failure's sequence number. With the same ID it would count as the
// intent that failed.
func (p *publisher) intent(row *Row, over settle.Entry) settle.Intent {
	id := p.f.Batch + ":" + strconv.Itoa(row.Number)
	if over.Record != nil {
		id += ":after-" + strconv.FormatUint(over.Seq, 10)
	}
	in := settle.Intent{
		OrderNo: row.OrderNo, Body: row.Order.Canonical(), Batch: p.f.Batch, Deadline: p.f.o.Deadline,
		ID: id, Source: p.f.head.place(row.Line),
	}
	p.place(&in, row)
	if p.f.o.Trace != nil {
		in.Traceparent = p.f.o.Trace(in.OrderNo, id, p.q.StreamOf(in.Waits()))
	}
	return in
}

func (p *publisher) ours(id string, row *Row) bool {
	number, ok := status.RowOf(id, p.f.Batch)
	return ok && number == row.Number
}

// apply adds the results of a chunk to the summary, in file order.
func (p *publisher) apply(ctx context.Context, vs []rowResult) error {
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
			o.schedule(v.at)
		case AlreadyPending:
			if v.ours {
				o.await(v.number)
			} else {
				o.foreign++
			}
		}
		if len(o.Errors) == p.f.o.MaxErrors {
			continue
		}
		if v.other != nil {
			v.note = p.note(ctx, v.other)
		}
		if v.note != "" {
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

// schedule counts a row that waits for its time.
func (p *Result) schedule(at time.Time) {
	if at.IsZero() {
		return
	}
	if p.Scheduled++; p.Scheduled == 1 || at.Before(p.Earliest) {
		p.Earliest = at
	}
	if at.After(p.Latest) {
		p.Latest = at
	}
}

func (p *Result) await(number int) {
	if !p.awaited.has(number) {
		p.awaited.add(number)
		p.waits++
	}
}

// save saves the progress. Two concurrent runs of one import do no harm, because the
// intent of each row has a fixed ID.
func (p *publisher) save(ctx context.Context) error {
	p.saved = time.Now()
	if p.again && p.out.Stored == 0 { // nothing new: keep the saved progress
		return nil
	}
	p.imp.Counts = make(map[string]int, len(p.out.Fates))
	for fate, n := range p.out.Fates {
		p.imp.Counts[string(fate)] = n
	}
	return p.record(ctx, func(now *imports.Import) (over bool) {
		if now.Done > p.imp.Done {
			p.imp = now
			return true
		}
		p.imp = p.imp.After(now)
		return false
	})
}

// record writes p.imp. If somebody wrote another one meanwhile, join brings that into p.imp, and
// says whether nothing is left to write. After a cancellation, record still writes how far the
// run came, and returns ErrCancelled.
func (p *publisher) record(ctx context.Context, join func(now *imports.Import) (over bool)) error {
	for over := false; !over; {
		err := imports.SaveImport(ctx, p.q, p.imp)
		if err == nil {
			break
		}
		if !errors.Is(err, imports.ErrImportChanged) {
			return err
		}
		now, err := imports.ReadImport(ctx, p.q, p.f.Batch)
		switch {
		case err != nil:
			return err
		case now == nil: // removed by hand
			p.imp = p.imp.Renewed()
		default:
			over = join(now)
			p.imp.CancelledAt = now.CancelledAt
		}
	}
	if !p.imp.CancelledAt.IsZero() {
		return fmt.Errorf("batch %s: %w", p.f.Batch, ErrCancelled)
	}
	return nil
}
