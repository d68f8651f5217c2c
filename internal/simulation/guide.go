package simulation

import (
	"math/rand/v2"
	"slices"
)

// guide keeps the schedules that reached something new and varies them.
type guide struct {
	rng  *rand.Rand
	kept []keptSchedule
}

type keptSchedule struct {
	Schedule
	draws []drawn
}

// Bounds of a guide, so that its memory is flat: the schedules that it keeps, and the
// edits of each.
const (
	maxKept  = 2048
	maxEdits = 8
)

// keep keeps a schedule. Once there are many, it takes the place of another one.
func (g *guide) keep(r Result) {
	k := keptSchedule{r.Schedule, r.draws}
	if len(g.kept) < maxKept {
		g.kept = append(g.kept, k)
		return
	}
	g.kept[g.rng.IntN(maxKept)] = k
}

// variant decides whether the next schedule is a variant: half of them are.
func (g *guide) variant() bool { return len(g.kept) > 0 && g.rng.IntN(2) == 0 }

// vary returns a variant of a kept schedule. Mostly a stream goes on differently from
// some draw on; the other streams stay as they are.
func (g *guide) vary() Schedule {
	r := g.rng
	from := &g.kept[r.IntN(len(g.kept))]
	if r.IntN(2) == 0 { // one that was kept lately
		from = &g.kept[len(g.kept)-1-r.IntN(min(len(g.kept), 64))]
	}
	s := from.Schedule
	for range 1 + r.IntN(2) {
		if len(s.Edits) >= maxEdits {
			s.Edits = slices.Delete(slices.Clone(s.Edits), 0, 1+r.IntN(len(s.Edits)-1))
		}
		s = s.with(g.edit(from))
	}
	return s
}

// raised are settings that a variant may change, with the largest value.
var raised = [...]struct {
	name string
	most int
}{
	{"Policy", 1}, {"Duplicates", 2}, {"Workers", 3}, {"Crashes", 3}, {"Freezes", 3}, {"Cuts", 3}, {"BrokerKills", 2}, {"FullDisks", 2}, {"Partitions", 2},
	{"SleptThrough", 2}, {"Drains", 2}, {"StepCrashes", 3}, {"StepFreezes", 3}, {"Persons", 6}, {"Stalls", 8}, {"LeaderChanges", 4}, {"BatchChanges", 4},
	{"ClockJumps", 4}, {"Suspends", 2}, {"Pages", 2}, {"Older", 2}, {"ConsumerChanges", 6},
}

func (g *guide) edit(from *keptSchedule) Edit {
	r := g.rng
	if r.IntN(5) == 0 {
		f := raised[r.IntN(len(raised))]
		least := 0
		if f.name == "Workers" {
			least = 1
		}
		return Edit{Op: editPlan, Field: f.name, Value: float64(least + r.IntN(f.most-least+1))}
	}
	d := from.draws[r.IntN(len(from.draws))]
	return Edit{Op: editFork, Stream: d.id, At: 1 + r.Uint32N(max(d.n, 1)), Salt: r.Uint32()}
}
