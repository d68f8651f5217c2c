package simulation

import (
	"math/rand/v2"
	"time"

	"orderpost/internal/settle"
)

// followers models the two replicas of the results that do not lead. They store the
// leader's writes in order, with a short lag, or with a long one while they are
// stalled. They always answer batched reads.
type followers struct {
	log []written
	all [followerCount]follower
}

// followerCount is the number of followers with three replicas.
const followerCount = 2

// written is one write to the results in the leader's order.
type written struct {
	token string
	entry *resultEntry
	due   [followerCount]time.Duration // when each follower stores it
}

type follower struct {
	has     int           // so much of the log
	stalled time.Duration // until then it stores nothing
}

// replicated reports whether a schedule has three replicas, as two in five have. It
// does not use the schedule's generator, so a seed with one replica keeps its
// schedule. The mutation Barrier needs three replicas. The other mutations use one,
// where they are known to be noticed.
func replicated(seed uint64, m Mutation) bool {
	switch m {
	case None:
		return rand.New(rand.NewPCG(seed, 0x666f6c6c6f776572)).Float64() < 0.4
	default:
		return m == Barrier
	}
}

// followersLag is the longest lag of a follower that is not stalled.
const followersLag = 10 * time.Millisecond

// replicate sends the last write on token to the followers.
func (b *broker) replicate(token string) {
	f := b.followers
	if f == nil {
		return
	}
	w := written{token: token, entry: b.results[token]}
	for i := range w.due {
		w.due[i] = b.w.e.at + b.w.e.between(0, followersLag)
	}
	f.log = append(f.log, w)
}

// stall makes a follower store nothing for d.
func (b *broker) stall(i int, d time.Duration) {
	f := &b.followers.all[i]
	b.catchUp(i)
	f.stalled = max(f.stalled, b.w.e.at+d)
	b.w.faults++
	b.w.e.trace.say(b.w.e, "broker", "follower lags", "", "number %d, for %s", i+1, d)
}

func (b *broker) catchUp(i int) {
	f, log := &b.followers.all[i], b.followers.log
	for b.w.e.at >= f.stalled && f.has < len(log) && b.w.e.at >= log[f.has].due[i] {
		f.has++
	}
}

// answering returns the state of the replica that answers h's batched read. As with
// NATS, that is mostly the node to which h is connected.
func (b *broker) answering(h *host) func(token string) settle.Entry {
	f := b.followers
	if f == nil {
		return b.record
	}
	at := h.node
	if b.w.e.chance(0.2) {
		at = b.w.e.rng.IntN(len(f.all) + 1)
	}
	if at == len(f.all) {
		return b.record
	}
	b.catchUp(at)
	log := f.log[:f.all[at].has]
	return func(token string) settle.Entry {
		for i := len(log) - 1; i >= 0; i-- {
			if log[i].token == token {
				return log[i].entry.entry()
			}
		}
		return settle.Entry{}
	}
}

// barrier returns the leader's last write.
func (f *followers) barrier() settle.Barrier {
	if len(f.log) == 0 {
		return settle.Barrier{}
	}
	last := f.log[len(f.log)-1]
	return settle.Barrier{Token: last.token, Seq: last.entry.seq}
}
