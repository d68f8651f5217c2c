package uploads

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"orderpost/internal/platform/durable"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/xlsxtest"
)

// steps notes what a store does to make files last, with ID for the upload. The step
// with the number fails is refused; -1 = none.
type steps struct {
	did   []string
	fails int
}

var errStep = errors.New("input/output error")

func (r *steps) watch(s *Store) {
	r.did, r.fails = nil, -1
	s.step = func(step, path string) error {
		rel, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if id, found := strings.CutSuffix(parts[0], part); found && validID(id) {
			parts[0] = "ID" + part
		} else if validID(parts[0]) {
			parts[0] = "ID"
		}
		r.did = append(r.did, step+" "+strings.Join(parts, "/"))
		if len(r.did)-1 == r.fails {
			return errStep
		}
		return nil
	}
}

// TestAPowerCutTakesNothingThatIsKept: the order in which files, and the folders that
// name them, are synced before a page says that something is kept, checked or removed.
func TestAPowerCutTakesNothingThatIsKept(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var seen steps
	seen.watch(s)
	u := keep(t, s, "orders.csv", numbered(1, 10)+"U-11,soon,1\n")
	keeping := []string{"sync ID.part/" + packedFile, "sync ID.part/" + metaFile + part, "rename ID.part/" + metaFile, "sync ID.part", "rename ID", "sync ."}
	require.Equal(t, keeping, seen.did)

	seen.watch(s)
	d := openDesk(t, s, nil)
	require.NoError(t, d.Check(u.ID, anna, ""))
	finished(t, d, u.ID)
	require.Equal(t, []string{"sync ID/" + gridFile + part, "rename ID/" + gridFile, "sync ID/" + rejectsFile + part, "rename ID/" + rejectsFile, "sync ID/" + metaFile + part, "rename ID/" + metaFile, "sync ID"}, seen.did)

	seen.watch(s)
	z := keep(t, s, "orders.zip", zipped(t, "a.csv", numbered(1, 10)))
	require.Equal(t, keeping, seen.did, "an archive, too")
	seen.watch(s)
	b := keep(t, s, "orders.xlsx", string(xlsxtest.Book{Sheets: []string{xlsxtest.Rows(xlsxtest.Texts("order_no"))}}.Bytes()))
	require.Equal(t, append([]string{"sync ID.part/" + archiveFile, "rename ID.part/" + plainFile}, keeping[1:]...), seen.did, "a workbook, too")
	require.NoError(t, s.Remove(b.ID))
	seen.watch(s)
	require.NoError(t, s.Remove(z.ID))
	require.Equal(t, []string{"rename ID.part", "sync ."}, seen.did, "it does not come back")

	// A step that fails is never a file that is kept.
	for step := range keeping {
		seen.watch(s)
		seen.fails = step
		_, err := s.Keep(t.Context(), "more.csv", anna, strings.NewReader(numbered(1, 3)))
		require.ErrorIs(t, err, errStep, keeping[step])
		require.Equal(t, keeping[:step+1], seen.did)
		require.Len(t, s.List(), 1)
		names, size := onDisk(t, s)
		require.Equal(t, []string{packedFile, rejectsFile, gridFile}, names)
		require.Equal(t, size, s.Used())
	}
	seen.watch(s)

	// What a killed console left in the page cache is synced before anybody relies on it.
	require.NoError(t, s.Close())
	again := &Store{cfg: s.cfg, dir: s.dir, all: make(map[string]*Upload)}
	seen.watch(again)
	require.NoError(t, durable.MakeFolder(again.dir, again.syncFolder))
	require.NoError(t, again.read())
	require.Equal(t, []string{"sync ..", "sync ID", "sync ."}, seen.did)

	// A new data folder is synced in what holds it, up to the folder that was there.
	seen.watch(again)
	require.NoError(t, durable.MakeFolder(filepath.Join(again.dir, "new", "data", "uploads"), again.syncFolder))
	require.Equal(t, []string{"sync new/data", "sync new", "sync ."}, seen.did)
}
