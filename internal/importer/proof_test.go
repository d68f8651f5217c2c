package importer

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// changing opens a file whose content a test can change.
func changing(t *testing.T, content string, change ...func(*Options)) (f *File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	r, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	o := Options{File: "orders.csv"}
	for _, c := range change {
		c(&o)
	}
	f, err = Open(r, o)
	require.NoError(t, err)
	return f, path
}

// TestFileThatChangesWhileItIsSent: truncated, overwritten, extended or with
// other columns, no row is sent that was not checked, and none is lost without
// a word.
func TestFileThatChangesWhileItIsSent(t *testing.T) {
	const rows = 4*chunkRows + 10
	content := numbered(1, rows, "1")
	half := strings.Index(content, "A-1200,")
	for name, c := range map[string]struct {
		content string
		sent    int
	}{
		"truncated":           {content[:half], 2 * chunkRows},
		"truncated at chunk":  {content[:strings.Index(content, "A-1001,")], 2 * chunkRows},
		"emptied":             {"", 0},
		"overwritten":         {strings.ReplaceAll(content, "30,1", "30,9"), 0},
		"one cell":            {strings.Replace(content, "A-1700,30,1", "A-1700,30,2", 1), 3 * chunkRows},
		"bad":                 {strings.Replace(content, "A-1700,30,1", "A-1700,\"x,1", 1), 3 * chunkRows},
		"extended":            {content + "X-1,30,1\n", 4 * chunkRows},
		"other columns":       {strings.Replace(content, "qty", "abc", 1), 0},
		"a blank row between": {strings.Replace(content, "A-700,", "\nA-700,", 1), chunkRows},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t)
			f, path := changing(t, content)
			s, err := f.Check(t.Context())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			_, err = f.Publish(t.Context(), q, s)
			require.ErrorIs(t, err, ErrChanged)
			counts, err := q.Count(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, int(counts.LastIntent), c.sent)

			_, err = f.WriteResults(t.Context(), q, io.Discard)
			require.ErrorIs(t, err, ErrChanged)
			require.ErrorIs(t, f.WriteRejects(t.Context(), io.Discard), ErrChanged)

			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			publish(t, q, openText(t, content))
			counts, err = q.Count(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, rows, counts.LastIntent, "each row once")
		})
	}
}

// TestFileThatChangesInTheMiddle is changed by the import's own progress.
func TestFileThatChangesInTheMiddle(t *testing.T) {
	q := openQueue(t)
	content := numbered(1, 200*chunkRows, "1")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	path := ""
	f, path := changing(t, content, func(o *Options) {
		o.Progress = func(int) { _ = os.Truncate(path, int64(len(content)/2)) }
	})
	s, err := f.Check(ctx)
	require.NoError(t, err)
	_, err = f.Publish(ctx, q, s)
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, "orders.csv: the file changed after it was checked: it differs after row ")
}

// TestFileThatChangesBeforeItsCheck: the batch is named after other content.
func TestFileThatChangesBeforeItsCheck(t *testing.T) {
	f, path := changing(t, numbered(1, 10, "1"))
	require.NoError(t, os.WriteFile(path, []byte(numbered(1, 11, "1")), 0o600))
	require.Contains(t, refusals(t, f), "the file changed while it was read (somebody writes it)")
}

// TestDamagedCompression: the error says what is wrong and what to do.
func TestDamagedCompression(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(numbered(1, 3, "1")))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	whole := b.String()
	wrong := []byte(whole)
	wrong[len(wrong)-6] ^= 1
	for content, want := range map[string]string{
		whole + "trailing bytes": "orders.csv: other bytes stand behind the gzip data",
		whole[:30]:               "orders.csv: the gzip data ends in the middle",
		string(wrong):            "orders.csv: the gzip data is damaged",
	} {
		require.Contains(t, refusals(t, openText(t, content)), want)
	}
	_, got := bodies(t, openText(t, whole+whole[:0]))
	require.Len(t, got, 3)
}
