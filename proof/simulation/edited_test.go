package simulation

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

// The oracle asks what a record says besides its outcome: each edit of one record in a
// schedule that is in order is found.
func TestARecordThatSaysWhatIsNotTrueIsFound(t *testing.T) {
	other := func(r *order.Record) *order.Conflict {
		i := slices.IndexFunc(r.Conflicts, func(c order.Conflict) bool { return c.IntentID != r.IntentID && c.BodyHash != "" })
		if r.Outcome() != order.OutcomeAccepted || i < 0 {
			return nil
		}
		return &r.Conflicts[i]
	}
	for name, edit := range map[string]func(r *order.Record, c *order.Conflict){
		"the import of a refused intent": func(r *order.Record, c *order.Conflict) { r.Batch, r.Source = c.Batch, c.Source },
		"its own body is refused":        func(r *order.Record, c *order.Conflict) { c.BodyHash = r.BodyHash },
		"an intent is refused twice":     func(r *order.Record, c *order.Conflict) { r.Conflicts = append(r.Conflicts, *c) },
		"the body of a refused intent":   func(r *order.Record, c *order.Conflict) { r.BodyHash = c.BodyHash },
		"no timestamp":                   func(r *order.Record, _ *order.Conflict) { r.LastTimestamp = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			edited := 0
			for seed := uint64(1); seed <= 40 && edited < 5; seed++ {
				var events []oracle.Event
				var cs coroutines
				play(&Schedule{Seed: seed, Corrections: true}, None, nil, nil, func(e oracle.Event) { events = append(events, e) }, &cs)
				cs.end()
				i := slices.IndexFunc(events, func(e oracle.Event) bool { return e.Record != nil && other(e.Record) != nil })
				if i < 0 {
					continue
				}
				require.Empty(t, oracle.Judge(events).Findings)
				r := *events[i].Record
				r.Conflicts = slices.Clone(r.Conflicts)
				edit(&r, other(&r))
				events[i].Record = &r
				found := oracle.Judge(events).Findings
				require.NotEmpty(t, found, "seed %d", seed)
				edited++
			}
			require.Equal(t, 5, edited)
		})
	}
}
