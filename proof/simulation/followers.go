package simulation

import (
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
	if b.followers == nil {
		return
	}
	f := &b.followers.all[i]
	b.catchUp(i)
	f.stalled = max(f.stalled, b.w.e.at+d)
	b.w.faults++
	b.w.e.reached.strike(FaultLag, b.w.busiest())
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
		if r := b.reads(inResults, StepCheck); r != answers {
			return nil // a server that stops does not complete a batch
		}
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
