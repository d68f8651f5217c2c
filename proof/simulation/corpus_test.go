package simulation

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpus reads the schedules that once broke something.
func corpus(t *testing.T) (all []Schedule, showed []string) {
	t.Helper()
	f, err := os.Open("testdata/schedules.txt")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text, what, ok := strings.Cut(lines.Text(), "\t")
		if strings.HasPrefix(text, "#") {
			continue
		}
		require.True(t, ok, "%q: want a schedule, a tab and what it showed", lines.Text())
		s, err := ParseSchedule(text)
		require.NoError(t, err)
		all, showed = append(all, s), append(showed, what)
	}
	require.NoError(t, lines.Err())
	return all, showed
}

func TestSchedulesThatOnceFailed(t *testing.T) {
	all, showed := corpus(t)
	require.NotEmpty(t, all)
	for i, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			t.Log(showed[i])
			mustHold(t, s)
		})
	}
}
