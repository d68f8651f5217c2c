package simulation

import "time"

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
// first, and then there is none.
//
// nats-server (2.15) answers a single read with "no message found" whatever error its
// store returns, and the store of a leader that stops is closed. A server that was just
// elected answers nothing before it has processed all that it had stored
// (raft.leaderState), so no leader answers from its past.
type leader struct {
	stops, silent time.Duration // the ends of these phases
}

// change is how long the phases of a change of leadership last.
type change struct{ stops, silent time.Duration }

func (w *world) drawChange() change {
	return change{w.e.between(0, time.Second), w.e.between(0, 4*time.Second)}
}

// changeLeader lets the leader of a stream, or of all, stop.
func (b *broker) changeLeader(which int, c change) {
	if b.followers == nil || !b.up {
		return
	}
	b.w.faults++
	now := b.w.e.at
	if which == int(inIntents) || which == int(allStreams) {
		b.server = int(mix(b.w.e.schedule.Seed^mix(uint64(now))) % uint64(len(b.ahead))) // it draws nothing from the streams
	}
	for s := range allStreams {
		if which == int(s) || which == int(allStreams) {
			b.leaders[s] = leader{now + c.stops, now + c.stops + c.silent}
		}
	}
	b.w.e.trace.say(b.w.e, "broker", "leader stops", "", "of %s, within %s; the next one leads %s later", streamTexts[which], c.stops, c.silent)
}

// reaction is what a leader does with a request.
type reaction uint8

const (
	answers reaction = iota
	// answersNone: a leader that stops says that there is no message.
	answersNone
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
	case e.at >= l.silent:
		return answers
	case e.at < l.stops && e.chance(0.7) && e.happens():
		e.reached.strike(FaultLeaderStops, at)
		return answersNone
	}
	return b.leaderless(at)
}

// leaderless returns how a request fails while nobody leads.
func (b *broker) leaderless(at Step) reaction {
	b.w.e.reached.strike(FaultLeaderSilent, at)
	if b.w.e.chance(0.5) {
		return refuses
	}
	return isSilent
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
	case e.at >= l.silent:
		return answers
	case e.at < l.stops && e.chance(0.5):
		e.reached.strike(FaultLeaderStops, at)
		return storesSilently
	}
	return b.leaderless(at)
}
