package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// mostLines is how long the trace of a shrunk schedule may be: a page for a person.
const mostLines = 40

// A broken schedule is made so short that a person can read it, and it still breaks the
// same invariant.
func TestAShrunkScheduleIsShortAndStillBreaks(t *testing.T) {
	for _, m := range Mutations() {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			s, err := ParseSchedule(noticed[m].schedule)
			require.NoError(t, err)
			whole := Play(s, m, nil)
			require.NotEmpty(t, whole.Findings)
			short := Shrink(s, m, 3000)
			trace := &Trace{}
			again := Play(short.Schedule, m, trace)
			require.Equal(t, short.Findings, again.Findings)
			require.Equal(t, whole.Findings[0].Invariant, again.Findings[0].Invariant)
			lines := trace.short(again)
			text := ""
			for _, l := range lines {
				text += l + "\n"
			}
			t.Logf("%d lines, %s\n%s", len(lines), short.Schedule, text)
			require.LessOrEqual(t, len(lines), mostLines, "%s", text)
		})
	}
}
