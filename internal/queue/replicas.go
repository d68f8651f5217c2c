package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// A ReplicaGap says that a replica of a stream lacks messages that another one has, and does
// not catch up: its disk is damaged. The broker (nats-server 2.15) calls such a replica
// current, lets it answer reads, and may let it lead.
type ReplicaGap struct {
	// Stream is the stream's name for people, such as "stream ORDERS".
	Stream string
	// Lacks is how many messages it lacks, or nearly so many while messages are written.
	Lacks uint64
}

// String says what was seen, without advice.
func (g ReplicaGap) String() string {
	return fmt.Sprintf("a replica of %s lacks %d messages that another one has, and does not catch up", g.Stream, g.Lacks)
}

// GapAdvice tells a person what to do about a ReplicaGap.
const GapAdvice = "The disk of one of the NATS servers is damaged: stop that server. See \"When one of three disks is damaged\" in docs/operations.md"

const (
	// gapReads is how many reads of a stream ask how many messages it has. Any replica may
	// answer each of them, so a look misses one of three once in six hundred looks.
	gapReads = 16
	// auditReads is gapReads for an audit, which believes the first look that finds no gap.
	auditReads = 2 * gapReads
	// gapLasts is how long a replica of a stream must differ. One that lags catches up sooner.
	gapLasts = 2 * time.Second
	// gapPatience is how long ReplicaGaps waits for a moment in which nobody writes.
	gapPatience = 5 * time.Second
)

// countOlder asks so many times, whichever replicas answer, how many messages a stream has
// from before a moment, and how many late ones. The zero time means that all are older.
func (cs *Census) countOlder(ctx context.Context, name string, reads int, before time.Time) (older, late counted, err error) {
	return countOlder(reads, before, func(since time.Time) (uint64, error) { return cs.countAtSomeReplica(ctx, name, since) })
}

// countOlder counts by asking for all messages, and for the late ones before and after that.
// Late ones come between two answers, many where answers are slow. So what is older is only
// known to lie between two numbers, and a replica lacks some if it cannot have as many as
// another one has at least.
func countOlder(reads int, before time.Time, count func(since time.Time) (uint64, error)) (older, late counted, err error) {
	lately := func() (n uint64, err error) {
		if before.IsZero() {
			return 0, nil
		}
		if n, err = count(before); err == nil {
			late.add(n)
		}
		return n, err
	}
	after, err := lately()
	if err != nil {
		return older, late, err
	}
	for range reads {
		earlier := after
		all, err := count(time.Time{})
		if err != nil {
			return older, late, err
		}
		if after, err = lately(); err != nil {
			return older, late, err
		}
		older.between(all-min(all, max(earlier, after)), all-min(all, min(earlier, after)))
	}
	return older, late, nil
}

// counted sums up several counts.
type counted struct {
	any bool
	// least is the most that the smallest count may have been, most the least that the largest
	// one was. So least may be the greater one.
	least, most uint64
	// fall is by how much a count was lower than one before it.
	fall uint64
}

func (c *counted) add(n uint64) {
	c.between(n, n)
	c.fall = max(c.fall, c.most-n)
}

// between adds a count of which only bounds are known.
func (c *counted) between(low, high uint64) {
	if !c.any {
		*c = counted{any: true, least: high, most: low}
	}
	c.least, c.most = min(c.least, high), max(c.most, low)
}

// countAtSomeReplica asks one replica, of the broker's choice, how many messages of at or
// after since it has; the zero time means all.
func (cs *Census) countAtSomeReplica(ctx context.Context, name string, since time.Time) (uint64, error) {
	ctx, cancel := cs.conn.link.bound(ctx)
	defer cancel()
	ask := []byte(`{"seq":1,"batch":1,"next_by_subj":">"}`)
	if !since.IsZero() {
		ask = fmt.Appendf(nil, `{"start_time":%q,"batch":1,"next_by_subj":">"}`, since.UTC().Format(time.RFC3339Nano))
	}
	msg, err := cs.conn.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+name, ask)
	if err != nil {
		return 0, err
	}
	if msg.Header.Get("Status") == "404" {
		return 0, nil
	}
	more, err := strconv.ParseUint(msg.Header.Get("Nats-Num-Pending"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stream %s: a read does not say how many messages follow: %w", name, err)
	}
	return more + 1, nil
}

// ReplicaWatch compares the replicas of the results, look by look, while workers write to
// them. Three things let the counts of healthy replicas differ. One that lags lacks the newest
// records, so these are left out. It has older ones that were replaced, and each replica removes
// what expires by a clock of its own: both are gone everywhere a look later. One that was away
// for long gets more from look to look. What a damaged disk took is not there again, and the
// others keep it. A ReplicaWatch is not safe for concurrent use.
type ReplicaWatch struct {
	census   *Census
	reads    int         // of each look
	last     time.Time   // when the last look began
	end      uint64      // the last sequence at that look
	before   time.Time   // the records before this moment are compared; zero = all
	differed int         // in how many looks in a row a replica lacked some of them
	least    uint64      // how many of them it had at the first of these looks
	agreed   int         // in how many looks in a row none lacked some
	gap      *ReplicaGap // what was found
}

const (
	// provingLooks is in how many looks in a row a replica must lack records.
	provingLooks = 3
	// agreeingLooks is for how many looks in a row none may, before a gap counts as closed: a
	// look may miss the replica that does.
	agreeingLooks = 5
	// newest is how old the newest records are at most: longer than a replica lags that was not
	// away.
	newest = 10 * time.Second
	// writeNoise is how much the counts of one look may differ while records are written,
	// besides what the counts of the newest records show.
	writeNoise = 8
)

// WatchReplicas returns a watch that has not looked yet.
func (cs *Census) WatchReplicas() *ReplicaWatch { return &ReplicaWatch{census: cs, reads: gapReads} }

// Gap returns what the looks have found; nil = nothing.
func (w *ReplicaWatch) Gap() *ReplicaGap { return w.gap }

// Suspects reports whether the last look found, or did not rule out, that a replica lacks some.
func (w *ReplicaWatch) Suspects() bool { return w.gap != nil || w.differed > 0 }

// Look compares the replicas. It costs 34 small reads, and nothing where the results have one
// replica. Looks are at least two seconds apart; one before that does nothing.
func (w *ReplicaWatch) Look(ctx context.Context) error {
	if !w.census.reader.replicated() || time.Since(w.last) < gapLasts {
		return nil
	}
	_, err := w.look(ctx)
	return err
}

// look is Look at once. agree says that the replicas that answered have equally many records.
func (w *ReplicaWatch) look(ctx context.Context) (agree bool, err error) {
	cs := w.census
	info, err := cs.conn.info(ctx, cs.conn.n.results)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if info.Config.Replicas < 2 {
		w.gap = nil
		return true, nil
	}
	rest := info.State.LastSeq == w.end // nobody has written since the last look, and who lagged has caught up
	if w.differed == 0 || rest != w.before.IsZero() {
		w.differed, w.before = 0, info.State.LastTime.Add(-newest)
		if rest {
			w.before = time.Time{}
		}
	}
	now := time.Now()
	older, late, err := cs.countOlder(ctx, cs.conn.n.results, w.reads, w.before)
	if err != nil {
		return false, err
	}
	w.last, w.end = now, info.State.LastSeq
	w.judge(older, late)
	return older.most <= older.least, nil
}

// judge adds what a look has counted: the records before the moment, and those after it.
func (w *ReplicaWatch) judge(older, late counted) {
	noise := uint64(0)
	if !w.before.IsZero() {
		noise = writeNoise + 2*late.fall + (late.most-late.least)/uint64(w.reads)
	}
	switch {
	case older.most <= older.least+noise:
		w.differed, w.agreed = 0, w.agreed+1
	case w.differed > 0 && older.most <= w.least+noise: // by now, no replica has what one lacked then
		w.differed = 0
	case w.differed > 0 && older.least > w.least+noise: // it catches up
		w.differed = 0
	default:
		if w.differed == 0 {
			w.least = older.least
		}
		w.differed, w.agreed = w.differed+1, 0
	}
	switch {
	case w.differed >= provingLooks:
		w.gap = &ReplicaGap{"stream " + w.census.conn.n.results, older.most - older.least}
	case w.agreed >= agreeingLooks:
		w.gap = nil
	}
}

// ReplicaGaps compares the replicas of each stream. A stream from which messages are removed
// all the time cannot be compared, and is left out.
func (cs *Census) ReplicaGaps(ctx context.Context) (gaps []ReplicaGap, err error) {
	for _, spec := range cs.conn.cfg.streams() {
		gap, err := patiently(ctx, cs.conn, func(ctx context.Context) (*ReplicaGap, error) {
			if spec.part == PartResults {
				return cs.resultsGap(ctx)
			}
			return cs.replicaGap(ctx, spec)
		})
		if err != nil {
			return gaps, err
		}
		if gap != nil {
			gaps = append(gaps, *gap)
		}
	}
	return gaps, nil
}

// resultsGap looks until the replicas of the results agree or one proves to lack some.
func (cs *Census) resultsGap(ctx context.Context) (*ReplicaGap, error) {
	watch := &ReplicaWatch{census: cs, reads: auditReads}
	for range agreeingLooks {
		if agree, err := watch.look(ctx); agree || err != nil {
			return nil, err
		}
		if gap := watch.Gap(); gap != nil {
			return gap, nil
		}
		if err := settle.Sleep(ctx, gapLasts); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// replicaGap compares the replicas with the leader in a moment in which nobody writes.
func (cs *Census) replicaGap(ctx context.Context, spec streamSpec) (*ReplicaGap, error) {
	var at jetstream.StreamState // the leader's, unchanged since then
	var since time.Time
	for began := time.Now(); time.Since(began) < gapPatience; {
		info, err := cs.conn.info(ctx, spec.config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		now := info.State
		if info.Config.Replicas < 2 || now.Msgs == 0 {
			return nil, nil
		}
		all, _, err := cs.countOlder(ctx, spec.config.Name, auditReads, time.Time{})
		if err != nil {
			return nil, err
		}
		all.add(now.Msgs)
		switch {
		case all.least == all.most:
			return nil, nil
		case now.Msgs != at.Msgs || now.FirstSeq != at.FirstSeq || now.LastSeq != at.LastSeq:
			at, since = now, time.Now()
		case time.Since(since) > gapLasts:
			return &ReplicaGap{spec.title(), all.most - all.least}, nil
		}
		if err := settle.Sleep(ctx, againPause); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
