package uploads

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
)

// TestActsAreBoundToWhatWasSeen: whoever decides on a state that another person has
// changed since does nothing, and learns who changed what.
func TestActsAreBoundToWhatWasSeen(t *testing.T) {
	s := openStore(t, t.TempDir())
	broker := startBroker(t)
	d := openDesk(t, s, connect(t, broker))
	ben := Person{Name: "ben"}
	u := checked(t, d, "a.csv", numbered(1, 3))
	mark := func() string {
		l, err := d.Look(u.ID)
		require.NoError(t, err)
		return l.Mark
	}
	seen := mark()
	require.Equal(t, seen, mark(), "a look changes nothing")

	// ben reads another column as the amount, and checks again.
	set := importer.Reading{Batch: "bens"}
	next, err := d.Arrange(u.ID, ben, seen, set)
	require.NoError(t, err)
	require.Equal(t, next, mark())
	require.NoError(t, d.Check(u.ID, ben, next))
	finished(t, d, u.ID)

	_, arranged := d.Arrange(u.ID, anna, seen, importer.Reading{})
	for what, err := range map[string]error{
		"import": d.Import(t.Context(), u.ID, anna, seen, importer.Sending{}), "check": d.Check(u.ID, anna, seen), "arrange": arranged,
		"remove": d.Remove(u.ID, seen), "stop": d.Stop(t.Context(), u.ID, anna, seen),
	} {
		require.Equal(t, Changed, KindOf(err), what)
		require.ErrorContains(t, err, `nothing was done: the upload "a.csv" has changed since you opened its page: ben checked it at `, what)
	}
	got := finished(t, d, u.ID)
	require.Nil(t, got.Import)
	require.Equal(t, set, got.Settings)

	// A job is seen by itself: whoever meant a check does not stop an import.
	seen = mark()
	require.NoError(t, d.Import(t.Context(), u.ID, ben, seen, importer.Sending{Rate: 1}))
	require.ErrorContains(t, d.Stop(t.Context(), u.ID, anna, seen), "ben imports it since ")
	require.NoError(t, d.Stop(t.Context(), u.ID, anna, mark()))
	require.NotEqual(t, seen, mark())
	require.NoError(t, d.Remove(u.ID, mark()))
}

// TestALookIsOneMoment: a look between the last write of a job and its end shows the job,
// and one after it shows the result, never an upload that was not imported yet.
func TestALookIsOneMoment(t *testing.T) {
	s := openStore(t, t.TempDir())
	broker := startBroker(t)
	d := openDesk(t, s, connect(t, broker))
	u := checked(t, d, "a.csv", numbered(1, 1))
	for range 20 {
		require.NoError(t, d.Import(t.Context(), u.ID, anna, "", importer.Sending{RetryFailed: true}))
		began := time.Now()
		for {
			l, err := d.Look(u.ID)
			require.NoError(t, err)
			if l.Job != nil {
				require.Less(t, time.Since(began), time.Minute)
				continue
			}
			require.NotNil(t, l.Import, "no job, and no import either")
			require.Equal(t, Done, l.Import.State)
			require.False(t, l.Import.StartedAt.Before(began.Add(-time.Second)))
			break
		}
	}
}
