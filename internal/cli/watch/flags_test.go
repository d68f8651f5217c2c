package watch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func parsed(text string) (*folderFlags, error) {
	return parseFlags(text, completeness{endings: []string{"csv"}}, time.Now(), nil)
}

func TestWhatAFolderMaySay(t *testing.T) {
	for text, says := range map[string]string{
		"--not-before 08:00":              `"08:00" does not say where; write the zone behind it, such as 08:00 Europe/Berlin or 08:00 UTC`,
		"--not-before 08:00 Europe/Brlin": "unknown time zone Europe/Brlin; write a zone such as Europe/Berlin or UTC",
		"--not-before 8 o'clock":          "--not-before: ",
		"--deadline=":                     "--deadline needs a value",
		"--not-before 2026-01-01T08:00Z":  "ago; write a time of day, such as 08:00 Europe/Berlin, or say --allow-past",
		"--still soon":                    "soon",
	} {
		_, err := parsed(text)
		require.ErrorContains(t, err, says)
	}
	for text, want := range map[string][]string{"": {"csv"}, "--endings .CSV,dat\n": {"csv", "dat"}, "--endings a\n--endings b\n": {"a", "b"}, "--endings *\n": nil} {
		x, err := parsed(text)
		require.NoError(t, err)
		require.Equal(t, want, x.taken(), text)
	}
	for _, wrong := range []string{"--endings a/b\n", "--endings csv,,x\n", "--endings .\n"} {
		_, err := parsed(wrong)
		require.ErrorContains(t, err, "is no ending of a name, such as csv")
	}
	x, err := parsed("--not-before 08:00 Europe/Berlin\n--still 20s\n--skip-invalid\n--canary 3\n")
	require.NoError(t, err)
	require.Equal(t, 20*time.Second, x.still)
	require.True(t, x.choices.SkipInvalid)
	require.Equal(t, 3, x.choices.Canary)
	over, err := parsed("--deadline 2020-01-01T00:00:00Z\n")
	require.NoError(t, err, "a file that was taken before goes on")
	require.ErrorContains(t, over.choices.CheckDeadline(), "so every order would expire")
}
