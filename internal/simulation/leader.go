package simulation

import (
	"time"

	"orderpost/internal/settle"
)

// streamName is one of the broker's streams. With three replicas each has a leader of
// its own.
type streamName uint8

// The streams.
const (
	inIntents streamName = iota
	inResults
	inLetters
	inMarks
	allStreams
)

var streamTexts = [...]string{"intents", "results", "letters", "marks", "all streams"}

// leader is the state of a stream's leadership. While it changes, the old leader stops
// first, then there is none, and then a new one has been elected that has not applied
// all that was confirmed.
//
// nats-server (2.15) answers a single read with "no message found" whatever error its
// store returns, and the store of a leader that stops is closed. It takes a server for
// the leader as soon as that one is elected, for reads; writes wait until the new leader
// has applied what it has stored.
type leader struct {
	stops, silent, behind time.Duration // the ends of these phases
	lacks                 int           // so many of the last writes the new leader has not applied
	undo                  []undo        // what the last writes replaced
}

// undo is what a token held before a write.
type undo struct {
	token  string
	record *resultEntry
	letter *settle.Letter
	intent *intent
	mark   markEntry
}

// maxLacks bounds how far a new leader is behind.
const maxLacks = 4

// change is how long the phases of a change of leadership last.
type change struct {
	stops, silent, behind time.Duration
	lacks                 int
}

func (w *world) drawChange() change {
	e := w.e
	return change{e.between(0, 300*time.Millisecond), e.between(0, 4*time.Second), e.between(0, 300*time.Millisecond), e.rng.IntN(maxLacks + 1)}
}

// changeLeader lets the leader of a stream, or of all, stop.
func (b *broker) changeLeader(which int, c change) {
	if b.followers == nil || !b.up {
		return
	}
	b.w.faults++
	now := b.w.e.at
	for s := range allStreams {
		if l := &b.leaders[s]; which == int(s) || which == int(allStreams) {
			l.stops, l.silent, l.behind = now+c.stops, now+c.stops+c.silent, now+c.stops+c.silent+c.behind
			l.lacks = c.lacks
		}
	}
	b.w.e.trace.say(b.w.e, "broker", "leader stops", "", "of %s, for %s; the next is elected %s later, and behind by %d writes for %s", streamTexts[which], c.stops, c.silent, c.lacks, c.behind)
}

// reaction is what a leader does with a request.
type reaction uint8

const (
	answers reaction = iota
	// answersNone: a leader that stops says that there is no message.
	answersNone
	// answersLate: a new leader answers from before the last writes.
	answersLate
	// isSilent: there is no answer.
	isSilent
	// refuses: JetStream has no leader, and says so.
	refuses
	// storesSilently: a leader that stops stores a write and does not confirm it.
	storesSilently
)

// reads returns what the leader of a stream does with a single read.
func (b *broker) reads(s streamName, at Step) reaction {
	l, e := &b.leaders[s], b.w.e
	switch {
	case e.at >= l.behind:
		return answers
	case e.at < l.stops:
		if e.chance(0.7) && e.happens() {
			e.reached.strike(FaultLeaderStops, at)
			return answersNone
		}
		return isSilent
	case e.at < l.silent:
		e.reached.strike(FaultLeaderSilent, at)
		if e.chance(0.5) {
			return refuses
		}
		return isSilent
	case l.lacks > 0 && e.happens():
		e.reached.strike(FaultLeaderStale, at)
		return answersLate
	}
	return answers
}

// writes returns what the leader of a stream does with a write.
func (b *broker) writes(s streamName, at Step) reaction {
	l, e := &b.leaders[s], b.w.e
	if s == inResults && b.changeAfter > 0 {
		if b.changeAfter--; b.changeAfter == 0 {
			b.changeLeader(int(inResults)+e.rng.IntN(2)*int(allStreams-inResults), b.w.drawChange())
		}
	}
	switch {
	case e.at >= l.behind:
		return answers
	case e.at < l.stops && e.chance(0.5):
		e.reached.strike(FaultLeaderStops, at)
		return storesSilently
	case e.chance(0.5):
		e.reached.strike(FaultLeaderSilent, at)
		return refuses
	}
	e.reached.strike(FaultLeaderSilent, at)
	return isSilent
}

// wrote keeps what a write replaced.
func (b *broker) wrote(s streamName, u undo) {
	if b.followers == nil {
		return
	}
	l := &b.leaders[s]
	if len(l.undo) == maxLacks {
		copy(l.undo, l.undo[1:])
		l.undo = l.undo[:maxLacks-1]
	}
	l.undo = append(l.undo, u)
}

// before returns what a new leader that is behind has under a token. known is false if
// its last writes did not concern the token.
func (b *broker) before(s streamName, token string) (u undo, known bool) {
	l := &b.leaders[s]
	for _, u := range l.undo[max(0, len(l.undo)-l.lacks):] {
		if u.token == token {
			return u, true
		}
	}
	return u, false
}
