package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"
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
