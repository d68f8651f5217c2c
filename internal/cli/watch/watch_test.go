package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/fleet"
	"orderpost/internal/testing/xlsxtest"
)

// TestADay: files of three kinds in two folders, each by its own flags, and the same file again.
func TestADay(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	folders(t, filepath.Join(dir, "shop"), filepath.Join(dir, "new"))
	put(t, filepath.Join(dir, "shop", FlagsFile), "# the good rows go\n--skip-invalid\n--mapping map.yaml\n--set channel=web shop\n")
	put(t, filepath.Join(dir, "shop", "map.yaml"), "rename:\n  Nummer: order_no\n")
	put(t, filepath.Join(dir, "new", "orders.csv"), "order_no,timeout\nN-1,30\n")
	said, stop := s.watch(t, dir, brisk)
	put(t, filepath.Join(dir, "orders.csv"), "order_no,timeout\nD-1,30\nD-2,30\n")
	put(t, filepath.Join(dir, "bad.csv"), "order_no,timeout\nB-1,30\nB-2,soon\n")
	put(t, filepath.Join(dir, "shop", "m.csv"), "Nummer,timeout\nM-1,30\nM-2,soon\n")
	put(t, filepath.Join(dir, "book.xlsx"), book("X-1", "X-2"))
	all := []string{"done/orders.csv", "done/orders.csv.results.csv", "refused/bad.csv", "refused/bad.csv.rejects.csv", "refused/bad.csv.why.txt",
		"shop/enqueue.flags", "shop/map.yaml", "shop/done/m.csv", "shop/done/m.csv.rejects.csv", "shop/done/m.csv.results.csv", "refused/book.xlsx", "refused/book.xlsx.rejects.xlsx", "refused/book.xlsx.why.txt", "new/orders.csv"}
	holds(t, dir, said, all...)
	require.Equal(t, map[string]int{"D-1": 1, "D-2": 1, "M-1": 1}, s.created(t))
	require.Contains(t, said.String(), `new","time`)
	saw(t, said, "it has no file enqueue.flags, so nothing in it is taken")
	var doors []fleet.Door
	require.Eventually(t, func() bool { // it shows itself every two seconds
		v, err := fleet.New(s.q).Look(t.Context())
		require.NoError(t, err)
		doors = v.Doors()
		return len(doors) == 1 && doors[0].Problem != ""
	}, patience, 5*time.Millisecond)
	require.Equal(t, []string{fleet.DoorWatch, dir}, []string{doors[0].Kind, doors[0].Name})
	require.Contains(t, doors[0].Problem, "new: it has no file enqueue.flags, so nothing in it is taken")
	require.Equal(t, "nothing was enqueued:\nbad.csv:3:2: column timeout: \"soon\" is not a whole number such as 30\n"+
		"All bad rows (1) are in the file beside this one whose name ends in .rejects.csv. The other rows (1) were not enqueued, either: correct the whole file, and put it into the folder again.\n", content(t, dir, "refused/bad.csv.why.txt"))
	require.Contains(t, content(t, dir, "shop/done/m.csv.results.csv"), "M-1,30,accepted,")
	require.Contains(t, content(t, dir, "shop/done/m.csv.results.csv"), "M-2,soon,not-enqueued,")
	require.Contains(t, content(t, dir, "refused/book.xlsx.why.txt"), `book.xlsx:Orders!B3: column timeout: "soon" is not a whole number such as 30`)
	info, err := os.Stat(filepath.Join(dir, "done/orders.csv.results.csv"))
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm(), "who could read the file may read its results")

	// A corrected rejects file, the same file again under its name, and a folder that gets its flags.
	put(t, filepath.Join(dir, "bad.csv.rejects.csv"), strings.Replace(content(t, dir, "refused/bad.csv.rejects.csv"), ",soon", ",30", 1))
	put(t, filepath.Join(dir, "orders.csv"), "order_no,timeout\nD-1,30\nD-2,30\n")
	put(t, filepath.Join(dir, "new", FlagsFile), "--set channel=web\n--lane bulk\n")
	holds(t, dir, said, append(all[:len(all)-1], "done/orders.2.csv", "done/orders.2.csv.results.csv", "done/bad.csv.rejects.2.csv", "done/bad.csv.rejects.2.csv.results.csv",
		"new/enqueue.flags", "new/done/orders.csv", "new/done/orders.csv.results.csv")...)
	require.Equal(t, cli.ExitDone, stop(), said)
	require.Equal(t, map[string]int{"D-1": 1, "D-2": 1, "M-1": 1, "B-2": 1, "N-1": 1}, s.created(t))
	require.Equal(t, 5, s.intents(t))
	require.Contains(t, said.String(), "2 not enqueued: accepted before")
	imports := make(map[string]int)
	_, err = journal.All(t.Context(), s.q, journal.Query{}, func(i journal.Item) bool {
		if strings.HasPrefix(i.Actor.Name, "anna@") && i.Kind == journal.Import {
			imports[i.Details["file"]]++
		}
		return true
	})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"orders.csv": 2, "shop/m.csv": 1, "bad.csv.rejects.csv": 1, "new/orders.csv": 1}, imports, "who, and what")
}

// book is a workbook whose last row is bad.
func book(orderNos ...string) string {
	rows := []string{xlsxtest.Texts("order_no", "timeout")}
	for i, no := range orderNos {
		timeout := "30"
		if i == len(orderNos)-1 {
			timeout = "soon"
		}
		rows = append(rows, xlsxtest.Texts(no, timeout))
	}
	return string(xlsxtest.Book{Sheets: []string{xlsxtest.Rows(rows...)}}.Bytes())
}

// TestAWorkbookComesBackAsOne: bad rows and results of a workbook are workbooks.
func TestAWorkbookComesBackAsOne(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	put(t, filepath.Join(dir, FlagsFile), "--skip-invalid\n")
	put(t, filepath.Join(dir, "book.xlsx"), book("X-1", "X-2"))
	said, stop := s.watch(t, dir, brisk)
	holds(t, dir, said, FlagsFile, "done/book.xlsx", "done/book.xlsx.rejects.xlsx", "done/book.xlsx.results.xlsx")
	require.Equal(t, cli.ExitDone, stop())
	for _, name := range files(t, dir)[:3] {
		require.True(t, strings.HasPrefix(content(t, dir, name), "PK"), name)
	}
	require.Equal(t, map[string]int{"X-1": 1}, s.created(t))
}

// TestTakenWithinTwoSeconds, at the usual pace: a file that its writer closes is taken within two
// seconds, and one that grows, or is open, is not taken before.
func TestTakenWithinTwoSeconds(t *testing.T) {
	require.Less(t, usual.settle+usual.look, 2*time.Second)
	s, dir := newSite(t), t.TempDir()
	said, stop := s.watch(t, dir, usual)
	saw(t, said, `"watching"`)
	w, err := os.Create(filepath.Join(dir, "slow.csv"))
	require.NoError(t, err)
	_, err = w.WriteString("order_no,timeout\nT-1,30\n")
	require.NoError(t, err)
	// Until another file, which came later, is done: the slow one stays, although it does not change.
	put(t, filepath.Join(dir, "fast.csv"), "order_no,timeout\nT-2,30\n")
	saw(t, said, `"file":"fast.csv","batch"`)
	require.NotContains(t, said.String(), "slow.csv", "it is open")
	_, err = w.WriteString("T-3,30\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	closed := time.Now()
	saw(t, said, `{"level":"info","file":"slow.csv"`)
	took := time.Since(closed)
	t.Logf("taken %s after it was closed", took.Round(10*time.Millisecond))
	saw(t, said, `"file":"done/slow.csv"`)
	require.Equal(t, cli.ExitDone, stop())
	require.Equal(t, map[string]int{"T-1": 1, "T-2": 1, "T-3": 1}, s.created(t))
}

// TestAnotherTakesOver: of two on one folder one works, and the other one when that ends.
func TestAnotherTakesOver(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	first, stop := s.watch(t, dir, brisk)
	saw(t, first, `"watching"`)
	put(t, filepath.Join(dir, "a.csv"), "order_no,timeout\nA-1,30\n")
	holds(t, dir, first, "done/a.csv", "done/a.csv.results.csv")
	second, stopSecond := s.watch(t, dir, brisk)
	saw(t, second, "this one takes over when that ends")
	require.Equal(t, cli.ExitDone, stop())
	put(t, filepath.Join(dir, "b.csv"), "order_no,timeout\nA-2,30\n")
	holds(t, dir, second, "done/a.csv", "done/a.csv.results.csv", "done/b.csv", "done/b.csv.results.csv")
	require.Equal(t, cli.ExitDone, stopSecond())
	require.NotContains(t, first.String(), "b.csv")
}

// TestAFolderThatIsReplaced: files are taken from what is at the path.
func TestAFolderThatIsReplaced(t *testing.T) {
	s, dir := newSite(t), filepath.Join(t.TempDir(), "in")
	folders(t, dir)
	said, stop := s.watch(t, dir, brisk)
	saw(t, said, `"watching"`)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "refused")); return err == nil }, patience, time.Millisecond)
	require.NoError(t, os.Rename(dir, dir+".old"))
	saw(t, said, "files are taken again when the folder is back")
	folders(t, dir)
	put(t, filepath.Join(dir, "a.csv"), "order_no,timeout\nR-1,30\n")
	holds(t, dir, said, "done/a.csv", "done/a.csv.results.csv")
	require.Equal(t, cli.ExitDone, stop())
}

// TestWhatIsWrongIsTold: wrong use, wrong flags, and what they say.
func TestWhatIsWrongIsTold(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	file := filepath.Join(dir, "orders.csv")
	put(t, file, "order_no,timeout\nW-1,30\n")
	for path, want := range map[string]string{
		filepath.Join(dir, "nowhere"): "the folder " + filepath.Join(dir, "nowhere") + " is not there; make it, or name another one (to follow an import: orderpost enqueue watch BATCH)",
		file:                          file + " is no folder; name the folder in which files are dropped",
	} {
		said, stop := s.watch(t, path, brisk)
		saw(t, said, want)
		require.Equal(t, cli.ExitUsage, stop())
	}
	put(t, filepath.Join(dir, FlagsFile), "--batch march\nlane night\n--no-such-flag x\n--rate many\n--lane\n--mapping ../secret.yaml")
	said, stop := s.watch(t, dir, brisk)
	saw(t, said, "line 5: --lane needs a value")
	require.Equal(t, cli.ExitUsage, stop())
	for _, want := range []string{"line 1: --batch has no place in the file of a folder: it names one import", `line 2: "lane night" is no flag: a line is one flag of enqueue, such as --lane night`,
		"line 3: there is no flag --no-such-flag (orderpost enqueue --help lists them)", `line 4: --rate: "many" is not a number of orders a second, such as 50`} {
		require.Contains(t, said.String(), want)
	}
	for text, want := range map[string]string{
		"--mapping ../secret.yaml": "--mapping: ", "--mapping gone.yaml": "no such file", "--not-before 2020-01-01T00:00:00Z": "write a time of day, such as 08:00 Europe/Berlin", "--not-before 08:00": `does not say where`,
		"--deadline 2020-01-01T00:00:00Z": "ago, so every order would expire; give a later time, or leave it out",
		"--direct\n--lane night":          "--direct: leaves out the waiting room", "--marker a/b": "--marker: ", "--still -1s": `--still: -1s is below 0`, "--lane no such": "--lane: ",
	} {
		put(t, filepath.Join(dir, FlagsFile), text)
		said, stop := s.watch(t, dir, brisk)
		saw(t, said, want)
		require.Equal(t, cli.ExitUsage, stop(), text)
	}
	require.FileExists(t, file)

	// Flags that become wrong while the folder is watched, and right again; a lane that nobody made.
	put(t, filepath.Join(dir, FlagsFile), "--lane night\n")
	said, stop = s.watch(t, dir, brisk)
	saw(t, said, `unknown lane \"night\", there are: bulk; orderpost lane night 1 makes it; this is tried again`)
	put(t, filepath.Join(dir, FlagsFile), "--lain night\n")
	saw(t, said, "there is no flag --lain (orderpost enqueue --help lists them); nothing is taken until this is right")
	put(t, filepath.Join(dir, "more.csv"), "order_no,timeout\nW-2,30\n")
	put(t, filepath.Join(dir, FlagsFile), "")
	saw(t, said, `"file":"more.csv","time"`)
	require.Equal(t, cli.ExitDone, stop())
	require.Empty(t, s.created(t))
	require.Contains(t, strings.Join(files(t, dir), " "), "orders.csv")
}

// TestFlagsOfFolders: every flag of enqueue is one that a folder may have, or has a reason why not.
func TestFlagsOfFolders(t *testing.T) {
	cmd := enqueue.NewCommand(map[string]string{}, nil, nil, nil)
	cmd.InitDefaultHelpFlag()
	for _, flag := range strings.Fields(strings.NewReplacer("\n", " ", ",", " ").Replace(cmd.Flags().FlagUsages())) {
		name, is := strings.CutPrefix(flag, "--")
		if f := cmd.Flags().Lookup(name); is && f != nil {
			_, err := parsed(flag)
			if f.NoOptDefVal == "" {
				require.Error(t, err, flag)
				require.Regexp(t, "needs a value$|has no place in the file of a folder: ", err.Error(), flag)
			} else if err != nil {
				require.Contains(t, err.Error(), "has no place in the file of a folder: ", flag)
			}
		}
	}
}
