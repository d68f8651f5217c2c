package simulation

import "slices"

// Shrink returns a schedule with as few faults, orders and persons as it finds that
// still breaks the invariant that s breaks first. It plays at most so many schedules.
func Shrink(s Schedule, m Mutation, plays int) Result {
	var kept []Edit
	r := playOnce(&s, m, nil, &kept)
	if len(r.Findings) == 0 || s.Old {
		return r
	}
	k := &shrinker{mutation: m, invariant: r.Findings[0].Invariant, left: plays, best: r, kept: kept, length: lengthOf(s, m)}
	for before := -1; k.left > 0 && before != k.successes; {
		before = k.successes
		k.settings()
		k.absent()
		k.faults()
	}
	k.tidy()
	return k.best
}

type shrinker struct {
	mutation  Mutation
	invariant string
	left      int
	successes int
	best      Result
	kept      []Edit // what may be dropped from best
	length    int    // of best's trace
}

// lengthOf returns how many lines the short trace of a schedule has.
func lengthOf(s Schedule, m Mutation) int {
	t := &Trace{}
	r := Play(s, m, t)
	return len(t.short(r))
}

// try plays a schedule and takes it if it still breaks.
func (k *shrinker) try(s Schedule) bool {
	if k.left <= 0 {
		return false
	}
	k.left--
	var kept []Edit
	r := playOnce(&s, k.mutation, nil, &kept)
	if len(r.Findings) == 0 || r.Findings[0].Invariant != k.invariant {
		return false
	}
	k.best, k.kept = r, kept
	k.successes++
	return true
}

// lowered are the settings that shrinking lowers, in this order, with the values that it
// tries.
var lowered = [...]struct {
	name   string
	values []float64
}{
	{"Persons", []float64{0, 1, 2}}, {"Orders", []float64{1, 2, 3}}, {"Workers", []float64{1, 2}}, {"Slots", []float64{1, 2}}, {"Replicas", []float64{1}},
	{"Crashes", []float64{0, 1}}, {"Freezes", []float64{0, 1}}, {"Cuts", []float64{0, 1}}, {"BrokerKills", []float64{0, 1}}, {"FullDisks", []float64{0, 1}},
	{"Partitions", []float64{0, 1}}, {"SleptThrough", []float64{0, 1}}, {"Drains", []float64{0, 1}}, {"StepCrashes", []float64{0, 1}},
	{"StepFreezes", []float64{0, 1}}, {"Stalls", []float64{0, 1}}, {"LeaderChanges", []float64{0, 1}}, {"BatchChanges", []float64{0, 1}},
	{"ClockJumps", []float64{0, 1}}, {"Suspends", []float64{0, 1}}, {"BrokerClocks", []float64{0, 1, 2}}, {"FloorMoves", []float64{0, 1}}, {"Pages", []float64{0, 1}},
	{"ConsumerChanges", []float64{0, 1, 2}}, {"Corrections", []float64{1, 2, 3}}, {"Attentive", []float64{0, 1}},
	{"FreezeBeforePost", []float64{0}}, {"FreezeAfterPost", []float64{0}}, {"Misread", []float64{0}},
	{"Slow", []float64{0}}, {"LossRequest", []float64{0}}, {"LossAnswer", []float64{0}}, {"GateBusy", []float64{0}}, {"CallBack", []float64{0}},
	{"APIFaults.1", []float64{0}}, {"APIFaults.2", []float64{0}}, {"APIFaults.3", []float64{0}}, {"APIFaults.4", []float64{0}}, {"APIFaults.5", []float64{0}},
	{"APIFaults.6", []float64{0}}, {"APIFaults.7", []float64{0}}, {"APIFaults.8", []float64{0}}, {"APIFaults.9", []float64{0}}, {"APIFaults.10", []float64{0}},
}

// settings lowers settings of the plan.
func (k *shrinker) settings() {
	p := drawPlan(newEngine(&k.best.Schedule, nil))
	for _, f := range lowered {
		now, _ := p.get(f.name)
		for _, v := range f.values {
			if v >= now {
				break
			}
			if k.try(k.best.Schedule.without(f.name).with(Edit{Op: editPlan, Field: f.name, Value: v})) {
				break
			}
		}
	}
}

// without returns the schedule without the edits of a setting.
func (s Schedule) without(field string) Schedule {
	s.Edits = slices.DeleteFunc(slices.Clone(s.Edits), func(d Edit) bool { return d.Op == editPlan && d.Field == field })
	return s
}

// absent leaves out orders, submissions and persons.
func (k *shrinker) absent() {
	p := drawPlan(newEngine(&k.best.Schedule, nil))
	var ids []streamID
	for i := range p.Orders {
		ids = append(ids, streamOf(ofOrder, i, 0, 0))
		for n := range max(2, p.Corrections) {
			ids = append(ids, streamOf(ofProducer, i, 2+n, 0))
		}
	}
	for i := range p.Attentive {
		ids = append(ids, streamOf(ofPerson, attentive+i, 0, 0))
	}
	for i := range p.Persons {
		ids = append(ids, streamOf(ofPerson, i, 0, 0))
	}
	for _, id := range ids {
		if !k.best.Schedule.dropped(id, 0) {
			k.try(k.best.Schedule.with(Edit{Op: editDrop, Stream: id}))
		}
	}
}

// faults leaves out faults: half of those that struck, then a quarter, and so on to
// single ones.
func (k *shrinker) faults() {
	for size := (len(k.kept) + 1) / 2; size > 0 && k.left > 0; size /= 2 {
		for at := 0; at < len(k.kept); {
			s := k.best.Schedule
			s.Edits = append(slices.Clone(s.Edits), k.kept[at:min(at+size, len(k.kept))]...)
			if !k.try(s) {
				at += size
			}
		}
	}
}

// tidy removes edits without which the schedule still breaks and is told no longer.
func (k *shrinker) tidy() {
	k.length, k.left = lengthOf(k.best.Schedule, k.mutation), max(k.left, 2*len(k.best.Schedule.Edits))
	for i := len(k.best.Schedule.Edits) - 1; i >= 0; i-- {
		before, kept := k.best, k.kept
		s := before.Schedule
		s.Edits = slices.Delete(slices.Clone(s.Edits), i, i+1)
		if !k.try(s) {
			continue
		}
		if n := lengthOf(s, k.mutation); n > k.length {
			k.best, k.kept = before, kept
		} else {
			k.length = n
		}
	}
}
