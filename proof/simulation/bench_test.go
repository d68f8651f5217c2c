package simulation

import "testing"

// BenchmarkSchedule measures one schedule, from drawing its settings to checking the
// invariants.
func BenchmarkSchedule(b *testing.B) {
	b.ReportAllocs()
	for i := range b.N {
		if r := Run(uint64(i+1), None, nil); len(r.Findings) > 0 {
			b.Fatal(r.Schedule, r.Findings)
		}
	}
}
