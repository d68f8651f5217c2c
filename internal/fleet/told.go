package fleet

import "time"

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
