package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/submit/gate"
)

// NothingSent says in one sentence that no worker sends, since when and why; "" if a
// worker sends, and while every gate has been closed for a moment only. Whoever waits
// reads it: on each page of the console, in enqueue, order and deadletter replay.
// It needs a View of Look.
func (v *View) NothingSent(now time.Time) string {
	since, blocks := v.Stopped()
	if len(blocks) == 0 {
		return ""
	}
	text := "nothing is sent"
	if !since.IsZero() {
		text += " since " + clock(since, now)
	}
	var named []string
	for _, b := range blocks[:min(len(blocks), mostBlocks)] {
		if text, _, rule := strings.Cut(b, "\n"); rule {
			b = strings.TrimSuffix(text, ", such as") + "; orderpost fleet proposes one"
		}
		if r := []rune(b); len(r) > mostOfBlock {
			b = string(r[:mostOfBlock]) + "…"
		}
		named = append(named, strings.TrimSuffix(b, "."))
	}
	text += ": " + strings.Join(named, "; ")
	if more := len(blocks) - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

const (
	// blink is how long a gate may be closed before people are told: after most
	// throttles it opens again sooner.
	blink = 3 * time.Second
	// mostBlocks is how many blocks the sentence names, mostOfBlock how many characters
	// of each: more than a cause has. The page and the command fleet show all of them.
	mostBlocks, mostOfBlock = 2, 1000
)

// clock is a time in UTC, with its day unless that is today.
func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04") + " UTC"
	}
	return at.Format("2006-01-02 15:04") + " UTC"
}

// Stopped returns what stops the whole fleet, and since when. A person's hold is the
// only block then: it explains all others. since is zero if it is not known. It needs a View of Look.
func (v *View) Stopped() (since time.Time, blocks []string) {
	if v.Hold != nil {
		return v.Hold.Since, []string{v.Hold.text()}
	}
	if len(v.Unreadable) > 0 {
		return time.Time{}, []string{"the control bucket's " + strings.Join(v.Unreadable, " and ") + " cannot be read by this version"}
	}
	if v.StoresNothing != "" {
		for _, p := range v.Members {
			if p.SeenAt.After(since) {
				since = p.SeenAt
			}
		}
		return since, []string{"the broker stores nothing (" + v.StoresNothing + "): is its disk full? Workers that run cannot say so, and post nothing"}
	}
	present := v.Present()
	if len(present) == 0 {
		return v.nobody()
	}
	if slices.ContainsFunc(present, func(p Presence) bool { return p.Open }) {
		return time.Time{}, nil
	}
	for _, p := range present {
		closed := p.SeenAt.Add(-time.Duration(p.ShutMS) * time.Millisecond)
		if p.ShutMS == 0 { // its entry cannot be read
			return time.Time{}, blocksOf(present)
		}
		if time.Duration(p.ShutMS)*time.Millisecond < blink {
			return time.Time{}, nil
		}
		if closed.After(since) {
			since = closed
		}
	}
	return since, blocksOf(present)
}

// nobody is what stops a fleet without workers.
func (v *View) nobody() (since time.Time, blocks []string) {
	for _, a := range v.Absent() {
		if a.SeenAt.After(since) {
			since = a.SeenAt
		}
	}
	return since, []string{"no worker is running"}
}

// blocksOf returns the reasons of workers whose gates are closed, in the words of a sentence.
func blocksOf(present []Presence) []string {
	out := Reasons(present)
	for i, reason := range out {
		if causes, fails := strings.CutPrefix(reason, gate.APIFails+": "); fails {
			causes, _, _ = strings.Cut(causes, ". Since then ")
			out[i] = "the API is down: " + causes
		}
	}
	return out
}

// Told is what people are told of the fleet before any detail.
type Told struct {
	// NothingSent is as in View.NothingSent.
	NothingSent string
	// Pace is the sentence of PaceOf; "" while nothing is sent.
	Pace string
	// Absent are the workers that are gone, and what becomes of their orders.
	Absent []AbsentText
}

// AbsentText is a worker that is gone with its sentence.
type AbsentText struct {
	Absent
	Text string `json:"text"`
}

// Tell sums up a View of Look. ackWait is as in Absent.Says.
func (v *View) Tell(now time.Time, ackWait time.Duration) Told {
	t := Told{NothingSent: v.NothingSent(now)}
	if t.NothingSent == "" {
		t.Pace = PaceOf(v.Present()).Says()
	}
	if v.StoresNothing != "" { // the workers may well run
		return t
	}
	for _, a := range v.Absent() {
		t.Absent = append(t.Absent, AbsentText{a, a.Says(ackWait)})
	}
	return t
}
