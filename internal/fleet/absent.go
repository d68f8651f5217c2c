package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Absent is a worker that gives no sign of life any more and did not leave: it was
// killed, is frozen, or cannot reach the broker.
type Absent struct {
	Worker string `json:"worker"`
	// SeenAt is when it gave its last sign of life, For how long ago that is.
	SeenAt time.Time     `json:"seen_at"`
	For    time.Duration `json:"-"`
	// InFlight is how many orders it had in hand then.
	InFlight int `json:"in_flight"`
	// Again: a worker of this name is present, so this is a former run.
	Again bool `json:"again,omitempty"`

	alone bool // nobody is present
}

// absentAfter is how long a worker may give no sign of life before people are told. It
// gives one each second. The others count it as present for PresenceTerm.
const absentAfter = 4 * time.Second

// Absent returns the workers that gave no sign of life for four seconds, the one that was
// seen last first. The present ones erase an entry after a minute.
func (v *View) Absent() (out []Absent) {
	gone := func(p Presence) bool { return v.age(p) > absentAfter }
	alone := !slices.ContainsFunc(v.Members, func(p Presence) bool { return !gone(p) })
	for _, p := range v.Members {
		if gone(p) {
			out = append(out, Absent{Worker: p.Worker, SeenAt: p.SeenAt, For: v.age(p), InFlight: p.InFlight, alone: alone,
				Again: slices.ContainsFunc(v.Members, func(o Presence) bool { return !gone(o) && o.Worker == p.Worker })})
		}
	}
	slices.SortFunc(out, func(a, b Absent) int {
		return cmp.Or(b.SeenAt.Compare(a.SeenAt), strings.Compare(a.Worker, b.Worker))
	})
	return out
}

// Says tells what becomes of the orders of a worker that is gone. The broker gives them
// to others once the worker has not renewed its claims for ackWait; 0 = not known.
func (a Absent) Says(ackWait time.Duration) string {
	text := a.Worker
	if a.Again {
		text = "a former run of " + text
	}
	text += fmt.Sprintf(" not seen for %d s", int(a.For.Seconds()))
	if a.InFlight == 0 {
		return text + ", it had no orders in hand"
	}
	orders, verb, have := fmt.Sprintf("its %d orders", a.InFlight), "go", "have gone"
	if a.InFlight == 1 {
		orders, verb, have = "its order", "goes", "has gone"
	}
	to, comma := "others", ""
	if a.alone {
		to, comma = "the next worker that starts", ","
	}
	switch left := ackWait - a.For; {
	case left > 0:
		to += fmt.Sprintf("%s in %d s", comma, int((left + time.Second - 1).Seconds()))
	case ackWait > 0 && !a.alone:
		verb = have
	}
	return text + ", " + orders + " " + verb + " to " + to
}
