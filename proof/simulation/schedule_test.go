package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAScheduleIsReadFromItsText(t *testing.T) {
	for _, text := range []string{"7", "old:898", "old3:4", "corrections:5 Corrections=2", "7 -worker.0.1.0!31 -person.1.0.0 -trouble.3.0.0!1 Crashes=1 LossAnswer=0.25 APIFaults.3=0"} {
		s, err := ParseSchedule(text)
		require.NoError(t, err)
		require.Equal(t, text, s.String())
	}
	for _, text := range []string{"", "x", "old:x", "7 worker", "7 Crashes", "7 Wrong=1", "7 APIFaults.99=1", "7 -worker.0", "7 -nobody.0.0.0", "7 +worker.0.0.0@1=1", "old:7 Crashes=1"} {
		_, err := ParseSchedule(text)
		require.Error(t, err, text)
	}
}

// An edit changes what it names and nothing before it.
func TestAnEditChangesItsStreamOnly(t *testing.T) {
	for seed := uint64(1); seed < 30; seed++ {
		s := Schedule{Seed: seed}
		before, after := &Trace{}, &Trace{}
		Play(s, None, before)
		Play(s.with(Edit{Op: editDrop, Stream: streamOf(ofPerson, 200, 0, 0)}), None, after)
		require.Equal(t, before.lines, after.lines, "a stream that does not exist")

		p := drawPlan(newEngine(&s, nil))
		without := s.with(Edit{Op: editDrop, Stream: streamOf(ofOrder, 0, 0, 0)})
		require.Equal(t, p, drawPlan(newEngine(&without, nil)))
		trace := &Trace{}
		Play(without, None, trace)
		for _, l := range trace.lines {
			require.NotRegexp(t, `broker +stored +o0 `, l.text)
		}
	}
}

func TestReadingHasBothClocks(t *testing.T) {
	noon := time.Date(2100, 1, 1, 12, 0, 0, 7, time.UTC)
	a, b := reading(noon, time.Minute), reading(noon.Add(-time.Hour), time.Minute+time.Second)
	require.Equal(t, time.Second, b.Sub(a), "by the monotonic clock")
	require.Equal(t, -time.Hour, b.Round(0).Sub(a.Round(0)), "by the wall clock")
	require.True(t, noon.Equal(a.Round(0)))
	require.True(t, b.After(a))
	require.True(t, b.Round(0).Before(a.Round(0)))
}
