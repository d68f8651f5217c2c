package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// extentsKey is the bucket's key that holds how far each stream has come.
const extentsKey = "extents"

// Extent is how far a stream has come. Nothing that a broker may do lets the last
// sequence of a stream go down: a lower one means that the broker lost what it had
// confirmed. nats-server cuts a stream off where it finds a damaged record, and does
// not tell its clients.
type Extent struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"`
	// Again is the sequence that the stream had reached when its broker gave the same or a
	// lower one to a later message; 0 = it did not.
	Again uint64 `json:"again,omitempty"`
	// Restored is when the backup was made from which the stream was restored, until a person accepts that (Repair).
	Restored time.Time `json:"restored,omitzero"`
	// Accepted names the losses that a person accepted (Repair), the last ones in their order.
	Accepted []string `json:"accepted,omitempty"`
}

// mostAccepted is how many names Extent.Accepted keeps.
const mostAccepted = 16

// accepted names the loss that a person accepted last; "" = none was.
func (e Extent) accepted() string {
	if len(e.Accepted) == 0 {
		return ""
	}
	return e.Accepted[len(e.Accepted)-1]
}

// acceptedSince reports whether a person accepted a loss that somebody who saw the extent before does
// not know. An older copy of the bucket names one that is known.
func (e Extent) acceptedSince(before Extent) bool {
	return len(e.Accepted) > 0 && !slices.Contains(before.Accepted, e.accepted())
}

// Extents are the extents of an installation's streams, by the streams' names.
type Extents map[string]Extent

// Loss is a stream that ends before the place that it had reached, or that is another one
// than before.
type Loss struct {
	// Name is the stream's name for people, such as "stream ORDERS".
	Name      string
	Was, Have Extent
}

// String says what was seen, without advice.
func (l Loss) String() string {
	switch {
	case !l.Was.Restored.IsZero():
		return fmt.Sprintf("streams were restored from a backup of %s: what was stored and posted since is not in them", l.Was.Restored.UTC().Format(time.RFC3339))
	case !l.Was.Created.Equal(l.Have.Created):
		return fmt.Sprintf("%s was created at %s, and the one that this installation used was created at %s and had reached message %d",
			l.Name, l.Have.Created.UTC().Format(time.RFC3339), l.Was.Created.UTC().Format(time.RFC3339), l.Was.Last)
	case l.Have.Last >= l.Was.Last:
		return fmt.Sprintf("%s ended before message %d, which it had reached, and has grown to message %d since: messages that its broker confirmed are lost",
			l.Name, l.Was.Again, l.Have.Last)
	}
	return fmt.Sprintf("%s ends at message %d and had reached message %d: the last %d messages that its broker confirmed are lost",
		l.Name, l.Have.Last, l.Was.Last, l.Was.Last-l.Have.Last)
}

// LossAdvice tells a person what to do about a Loss.
const LossAdvice = "A disk is damaged, or this is an older copy of the streams. Restore a backup, or accept the loss: orderpost worker repair; then enqueue the files of the time since again. " +
	"See OrderpostStreamsMissing in docs/runbook.md"

// ExtentKeeper remembers how far the streams had come, and compares.
type ExtentKeeper struct {
	conn             *Conn
	reader           *reader
	bucket           *Bucket
	results, letters *writer
}

// Losses compares the streams with what the bucket remembers of them, and with what this program
// saw itself at its last look: the bucket may have been put back with the streams. A bucket that
// remembers nothing stores seen. Losses returns the present extents, too.
//
// In a cluster a new leader may be behind for a moment, so Losses looks again before it
// reports a loss.
func (ex *ExtentKeeper) Losses(ctx context.Context, seen Extents) (losses []Loss, now Extents, err error) {
	was, revision, err := ex.remembered(ctx) // before the streams: what is remembered meanwhile is no loss
	if err != nil {
		return nil, nil, err
	}
	if len(was) == 0 && len(seen) > 0 { // the bucket was lost; worker repair must see what this worker saw
		was = maps.Clone(seen)
		ex.keep(ctx, was, revision)
	}
	raised := false
	for look := 1; ; look++ {
		if now, err = ex.extents(ctx); err != nil {
			return nil, nil, err
		}
		raised = raise(was, seen, now) || raised
		for name, e := range now {
			e.Accepted = was[name].Accepted
			now[name] = e
		}
		was = ex.keepAgain(ctx, was, revision, now)
		losses = ex.compareExtents(was, now)
		if len(losses) == 0 {
			return nil, now, nil
		}
		if !ex.reader.replicated() || look == lossLooks {
			if raised { // what only this program saw; worker repair must see it, too
				ex.keep(ctx, was, revision)
			}
			return losses, now, nil
		}
		if err := settle.Sleep(ctx, lossPause); err != nil {
			return nil, nil, err
		}
	}
}

// keep makes the bucket remember extents, unless it was written since that revision.
func (ex *ExtentKeeper) keep(ctx context.Context, e Extents, revision uint64) {
	if _, err := ex.bucket.Swap(ctx, extentsKey, e, revision); err != nil {
		ex.conn.log.Debug().Err(err).Msg("cannot remember how far the streams had come; the next look tries again")
	}
}

// raise raises extents to what was seen of the same streams, unless a person accepted a loss
// since. If streams that held something have been replaced, it puts them back in the place of the present
// ones: a worker that started after all streams were lost made others and remembered those. It adds
// streams that are not there: the bucket remembers nothing of itself, because workers write to it all the time.
func raise(was, seen, now Extents) (raised bool) {
	for name, e := range seen {
		have, known := was[name]
		switch {
		case known && have.acceptedSince(e):
		case !known, e.Last > 0 && have.Created.Equal(now[name].Created) && !e.Created.Equal(have.Created):
			was[name], raised = e, true
		case e.Created.Equal(have.Created) && e.Last > have.Last:
			have.Last = e.Last
			was[name], raised = have, true
		}
	}
	return raised
}

const (
	lossLooks = 6
	lossPause = 300 * time.Millisecond
)

// RememberExtents raises what the bucket remembers to what a former look at the streams
// has seen, of the streams that the present look still finds. A look that is some seconds
// old saw what is on the disk by now. RememberExtents never lowers anything, so it does not
// accept a loss.
func (ex *ExtentKeeper) RememberExtents(ctx context.Context, seen, now Extents) error {
	was, revision, err := ex.remembered(ctx)
	if err != nil {
		return err
	}
	raised := false
	for name, e := range seen {
		if name == ex.bucket.stream() || !now[name].Created.Equal(e.Created) {
			continue
		}
		e.Last = min(e.Last, now[name].Last)
		have, known := was[name]
		e.Again, e.Restored, e.Accepted = have.Again, have.Restored, have.Accepted
		same := e.Created.Equal(have.Created)
		if !known || same && e.Last > have.Last || !same && (name == ex.conn.n.journal || have.Last == 0) {
			was[name], raised = e, true
		}
	}
	if !raised {
		return nil
	}
	_, err = ex.bucket.Swap(ctx, extentsKey, was, revision)
	if errors.Is(err, settle.ErrStale) {
		return nil // another worker was first
	}
	return err
}

// repairPrefix begins the keys that record repairs, one key for each.
const repairPrefix = "repair."

// AcceptLosses accepts the streams as they are: none counts as a [Loss] from now on. It
// records in the bucket who decided that, and what MakeLost made.
func (ex *ExtentKeeper) AcceptLosses(ctx context.Context, by string, made []string) error {
	was, _, err := ex.remembered(ctx)
	if err != nil {
		return err
	}
	now, err := ex.extents(ctx)
	if err != nil {
		return err
	}
	loss := rand.Text()
	for name, e := range now {
		before := was[name].Accepted
		e.Accepted = append(slices.Clone(before[max(0, len(before)-mostAccepted+1):]), loss)
		now[name] = e
	}
	if err := ex.bucket.Put(ctx, extentsKey, now); err != nil {
		return err
	}
	at := time.Now().UTC()
	_, err = ex.bucket.Swap(ctx, fmt.Sprintf("%s%d", repairPrefix, at.UnixNano()), map[string]any{"by": by, "at": at, "made": made}, 0)
	return err
}

// markRestored makes the bucket remember that the results, and so all streams, are those of a backup: no worker
// posts before a person accepts what it lacks.
func (ex *ExtentKeeper) markRestored(ctx context.Context, now Extents, made time.Time) error {
	delete(now, ex.bucket.stream())
	results := now[ex.conn.n.results]
	results.Restored = made
	now[ex.conn.n.results] = results
	return ex.bucket.Put(ctx, extentsKey, now)
}

// remembered reads what the bucket remembers. A value that cannot be read counts as none.
func (ex *ExtentKeeper) remembered(ctx context.Context) (e Extents, revision uint64, err error) {
	if ex.bucket.kv == nil { // Open found none, and left it at that
		return make(Extents), 0, nil
	}
	entries, err := ex.bucket.Last(ctx, extentsKey)
	if err != nil {
		return nil, 0, err
	}
	e = make(Extents)
	for _, entry := range entries {
		revision = entry.Revision
		if json.Unmarshal(entry.Value, &e) != nil {
			e = make(Extents)
		}
	}
	return e, revision, nil
}

// extents asks the streams' leaders how far the streams have come. It leaves out streams
// that do not exist.
func (ex *ExtentKeeper) extents(ctx context.Context) (Extents, error) {
	out := make(Extents)
	for _, spec := range ex.conn.cfg.streams() {
		info, err := ex.reader.info(ctx, spec.config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[spec.config.Name] = Extent{Created: bornAt(info), Last: info.State.LastSeq}
	}
	return out, nil
}

// keepAgain adds to was the ends that streams have lost, and makes the bucket remember them
// until a person accepts the loss (Repair): the stream may grow beyond its former end before
// the next look. This program's writes tell of a lost end; on one server, so does a look that
// finds it. A new leader of several may only be behind.
func (ex *ExtentKeeper) keepAgain(ctx context.Context, was Extents, revision uint64, now Extents) Extents {
	told := false
	for name, have := range now {
		former, again := was[name], uint64(0)
		for _, w := range []*writer{ex.results, ex.letters} {
			if w.stream == name {
				again = w.ends.look(era{have.Created, former.accepted()})
			}
		}
		if have.Last < former.Last && have.Created.Equal(former.Created) && !ex.reader.replicated() {
			again = max(again, former.Last)
		}
		if again > former.Again {
			if was == nil {
				was = make(Extents)
			}
			was[name] = Extent{Created: have.Created, Last: max(former.Last, again), Again: again, Restored: former.Restored, Accepted: former.Accepted}
			told = true
		}
	}
	if told {
		ex.keep(ctx, was, revision)
	}
	return was
}

// compareExtents returns the streams that lost something. Streams that are missing are
// another check's. Workers create a lost journal again, so another one is no loss here.
func (ex *ExtentKeeper) compareExtents(was, now Extents) (losses []Loss) {
	for _, spec := range ex.conn.cfg.streams() {
		have, ok := now[spec.config.Name]
		former, known := was[spec.config.Name]
		if !ok || !known {
			continue
		}
		same := have.Created.Equal(former.Created)
		if same && (have.Last < former.Last || former.Again > 0 || !former.Restored.IsZero()) || !same && spec.precious && former.Last > 0 {
			losses = append(losses, Loss{spec.title(), former, have})
		}
	}
	return losses
}

// ends tells whether a stream gave a sequence out again, by the confirmations of one
// program's writes. A write that is sent after another one was confirmed gets a higher
// sequence, unless the broker has lost the end of the stream meanwhile. A look at the
// stream's last sequence misses that once the writes of a busy fleet have filled the end up.
type ends struct {
	mu sync.Mutex
	era
	last  uint64 // the highest confirmed sequence, or the last one that was given again
	again uint64 // the highest confirmed sequence at a write that got no higher one; 0 = none did
}

// era is one life of a stream: from its creation, or from the last loss of its end that a person
// accepted (Repair).
type era struct {
	created  time.Time
	accepted string
}

func (a era) same(b era) bool { return a.created.Equal(b.created) && a.accepted == b.accepted }

// reach is how far a stream had come, as one program knew.
type reach struct {
	era
	last uint64
}

func (e *ends) reached() reach {
	e.mu.Lock()
	defer e.mu.Unlock()
	return reach{e.era, e.last}
}

// stored notes that a write got seq. before is what reached returned before it was sent.
func (e *ends) stored(before reach, seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.same(before.era) {
		return
	}
	if seq > before.last {
		e.last = max(e.last, seq)
		return
	}
	e.again = max(e.again, before.last)
	e.last = seq // what comes now is compared with the stream as it is
}

// look returns again, and forgets what belongs to another era than now.
func (e *ends) look(now era) (again uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.same(now) {
		e.era, e.last, e.again = now, 0, 0
	}
	return e.again
}
