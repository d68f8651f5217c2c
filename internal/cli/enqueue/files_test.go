package enqueue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
)

// TestSignalWhileStandardInputIsRead: the first one ends the program, and what
// was read leaves nothing behind, while it is read and afterwards.
func TestSignalWhileStandardInputIsRead(t *testing.T) {
	for _, args := range [][]string{{"-", "--dry-run"}, {"sign", "-"}} {
		data := t.TempDir()
		settings := map[string]string{"ORDERPOST_DATA_DIR": data, "ORDERPOST_API_SECRET": "x"}
		r, w := io.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() { code <- cli.Guard("enqueue", Run)(ctx, args, settings, r, io.Discard, io.Discard) }()
		_, err := io.WriteString(w, "order_no,timeout\n")
		require.NoError(t, err)
		_, err = io.WriteString(w, "A-1,30\n") // the first write was taken
		require.NoError(t, err)
		files, err := os.ReadDir(data)
		require.NoError(t, err)
		require.Empty(t, files, "a kill now leaves nothing")
		stop()
		require.Equal(t, cli.ExitInterrupted, <-code)
		require.NoError(t, w.Close())
	}
}

// TestNamedPipe is read like standard input; one without a writer is waited for
// until a signal.
func TestNamedPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() {
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			_, _ = io.WriteString(w, "order_no,timeout\nA-1,30\n")
			_ = w.Close()
		}
	}()
	got := run(t, nil, "", pipe, "--dry-run")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, "1 rows")

	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- Run(ctx, []string{pipe, "--dry-run"}, nil, nil, io.Discard, io.Discard) }()
	stop()
	require.Equal(t, cli.ExitInterrupted, <-code)
	require.Eventually(t, func() bool { // let the goroutine end that waits to open it
		w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_ = w.Close()
		}
		return err == nil || os.IsNotExist(err)
	}, time.Minute, time.Millisecond)
}

func TestStandardInputIsBounded(t *testing.T) {
	got := run(t, nil, "order_no,timeout\n"+strings.Repeat("A,30\n", 1<<18), "-", "--dry-run", "--max-stdin", "1")
	require.Equal(t, cli.ExitFailed, got.code)
	require.Equal(t, "enqueue: standard input is longer than 1 MiB (--max-stdin); save it as a file and import that, files may have any size\n", got.errOut)
	require.Equal(t, cli.ExitUsage, run(t, nil, "", "-", "--max-stdin", "0").code)
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	got := run(t, nil, "", dir)
	require.Equal(t, cli.ExitUsage, got.code)
	require.Equal(t, "enqueue: "+dir+" is a folder; name the files in it: "+dir+"/*.csv\n", got.errOut)
}

// TestFileThatChangesWhileItIsSent: the import works on its own copy.
func TestFileThatChangesWhileItIsSent(t *testing.T) {
	settings := brokerSettings(t)
	settings["TMPDIR"] = t.TempDir()
	file := filepath.Join(t.TempDir(), "orders.csv")
	var b strings.Builder
	b.WriteString("order_no,timeout\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "A-%d,30\n", i)
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	quietFor = 0
	t.Cleanup(func() { quietFor = 2 * time.Second })
	var out bytes.Buffer
	errOut := &stopWhen{text: "rows done", stop: func() { _ = os.Truncate(file, 100) }}
	code := Run(t.Context(), []string{file, "--rate", "5000"}, settings, strings.NewReader(""), &out, errOut)
	require.Equal(t, cli.ExitDone, code, errOut.String())
	require.Regexp(t, `orders.csv: \d+ of 20000 rows done`, errOut.String())
	require.Contains(t, out.String(), "   20000 enqueued\n")
	left, err := os.ReadDir(settings["TMPDIR"])
	require.NoError(t, err)
	require.Empty(t, left)

	_, batch, _ := strings.Cut(out.String(), "batch ")
	batch, _, _ = strings.Cut(batch, "\n")
	got := run(t, settings, "", "results", batch)
	require.Equal(t, cli.ExitFailed, got.code)
	require.Contains(t, got.errOut, "orders.csv is not the file that was imported as batch "+batch)
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	again := run(t, settings, "", file)
	require.Equal(t, cli.ExitDone, again.code, again.errOut)
	require.Contains(t, again.out, "   20000 not enqueued: an intent for the order_no is pending already\n")
}

// writing is a context that writes to a file when somebody asks it for the first time.
type writing struct {
	context.Context
	write func()
}

func (w *writing) Err() error {
	if w.write != nil {
		w.write()
		w.write = nil
	}
	return w.Context.Err()
}

// TestFileThatIsWrittenWhileItIsRead is probably not complete.
func TestFileThatIsWrittenWhileItIsRead(t *testing.T) {
	file := orders(t, 0, 3)
	check := func(write func()) error {
		j := &job{o: &importOptions{}, source: source{dir: t.TempDir()}}
		f, err := j.check(&writing{t.Context(), write}, file)
		if err == nil {
			f.close()
		}
		return err
	}
	require.NoError(t, check(func() {}))
	require.EqualError(t, check(func() {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString("T-10,30\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}), "nothing was enqueued: "+file+" changed while it was read (somebody writes it); run the command again when it is complete")
	require.NoError(t, check(func() {}))
}

// TestWhereTheCopyLies: not in a data folder of somebody else.
// TestNoRoomForACopy: the error says where room is missing, and nothing is sent.
func TestNoRoomForACopy(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, name := range []string{orders(t, 0, 3), "-"} {
		got := run(t, map[string]string{"TMPDIR": missing}, "order_no,timeout\nA,30\n", name, "--dry-run")
		require.Equal(t, cli.ExitFailed, got.code)
		require.Contains(t, got.errOut, " in "+missing+": ")
		require.Contains(t, got.errOut, "; if there is no room, make some there, or set TMPDIR to a folder with more\n")
	}
}

// TestSpoiledCellsAreAsked: the error names the flag that answers it, and the
// flag and the mapping file are believed.
func TestSpoiledCellsAreAsked(t *testing.T) {
	const content = "order_no,timeout\n2026-12-31,30\n"
	got := run(t, nil, content, "-", "--dry-run")
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, `stdin:2:1: column order_no: "2026-12-31" looks like a date that a spreadsheet has made of an order number; format the column as text, enter the number again and export it. If it is right as it is: --accept order_no=excel_date`)
	require.Equal(t, cli.ExitDone, run(t, nil, content, "-", "--dry-run", "--accept", "order_no=excel_date").code)
	mapping := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(mapping, []byte("accept: {order_no: [excel_date, excel_error]}\n"), 0o600))
	require.Equal(t, cli.ExitDone, run(t, nil, content, "-", "--dry-run", "--mapping", mapping).code)
	require.Equal(t, cli.ExitUsage, run(t, nil, content, "-", "--dry-run", "--accept", "order_no=yes").code)
	require.Equal(t, cli.ExitUsage, run(t, nil, content, "-", "--dry-run", "--accept", "order_no").code)
}

// TestTerminalIsNotSteered by the header, the name of a file or a cell.
func TestTerminalIsNotSteered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a\x1b[2J.csv")
	for content, code := range map[string]int{
		"a\x1b[31m,b\u009b\nA,30\n": cli.ExitPartial, "order_no,timeout\x1b[31m:int\nA,x\n": cli.ExitPartial,
		"order_no,timeout,x\u009b2J\nA-1,30,y\u009b\n": cli.ExitDone,
	} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		got := run(t, nil, "", file, "--dry-run")
		require.Equal(t, code, got.code, got.errOut)
		require.NotContains(t, got.out+got.errOut, "\x1b")
		require.NotContains(t, got.out+got.errOut, "\u009b")
		require.Contains(t, got.out+got.errOut, `a\u001b[2J.csv`)
	}
}

// TestWarningsAreSummedUp: once for each kind, with how many rows and what
// helps, and not once for each row.
func TestWarningsAreSummedUp(t *testing.T) {
	var b strings.Builder
	b.WriteString("order_no;timeout;Artikel;Menge:int;n:number\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "A-%d;30;x;1;%s\n", i, map[bool]string{true: "1e-9", false: "1"}[i == 700])
	}
	got := run(t, nil, b.String(), "-", "--dry-run")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, "    1000 rows have field names with other characters than a-z, 0-9 and _: Artikel, Menge (first in line 2). They are sent as they are;\n"+
		"         if the API answers that the signature is wrong, use other names (--rename Artikel=NEW_NAME).\n")
	require.Contains(t, got.out, "       1 rows have numbers with an exponent such as 1e+21: n (first in line 702).")
	require.Less(t, strings.Count(got.out, "\n"), 12)
}

// TestProposedRenames: what the summary proposes about a name can be pasted into a shell.
func TestProposedRenames(t *testing.T) {
	for header, want := range map[string]string{
		"Ship To":              `--rename 'Ship To=NEW_NAME'`,
		"Art.Nr":               `--rename Art.Nr=NEW_NAME`,
		"customer.Ship To.Zip": `--rename 'customer.Ship To.Zip=NEW_NAME'`,
		"Menge Stk:int":        `--rename 'Menge Stk:int=NEW_NAME' --type NEW_NAME=int`,
		"\"Ship\nTo's\"":       `--rename $'Ship\x0aTo\'s=NEW_NAME'`,
		"A=B":                  "",
	} {
		content := "order_no,timeout," + header + "\nA-1,30,1\n"
		got := run(t, nil, content, "-", "--dry-run")
		require.Equal(t, cli.ExitDone, got.code, got.errOut)
		if want == "" {
			require.Contains(t, got.out, "use other names.")
			continue
		}
		require.Contains(t, got.out, "use other names ("+want+").\n")
		words, err := exec.CommandContext(t.Context(), "bash", "-c", `printf '%s\0' `+strings.ReplaceAll(want, "NEW_NAME", "new_name")).Output()
		require.NoError(t, err)
		flags := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
		got = run(t, nil, content, append([]string{"-", "--dry-run"}, flags...)...)
		require.Equal(t, cli.ExitDone, got.code, got.errOut)
		require.NotContains(t, got.out, "field names with other characters")
		require.Contains(t, got.out, `"new_name":`)
	}
}

// TestProgressLines: an import that takes a while says how far it is.
func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	s := newSending(newStatusLine(&out), "a.csv", 50_000)
	s.show(500)
	require.Empty(t, out.String(), "not at once")
	s.begun = s.begun.Add(-2 * time.Second)
	s.show(10_500)
	require.Regexp(t, `^a.csv: 10500 of 50000 rows done; \d+/s, \d+s left\n$`, out.String())
	s.show(11_000)
	require.Equal(t, 1, strings.Count(out.String(), "\n"), "not too often")
}

// TestProgressOnATerminal: one line is redrawn. What else is told stands above it.
func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	line := &statusLine{w: &out, terminal: true}
	said := func() string { defer out.Reset(); return out.String() }
	s := newSending(line, "a\x1b.csv", 50_000)
	s.begun = s.begun.Add(-2 * time.Second)
	s.show(0)
	require.Equal(t, "\r\x1b[Ka\\u001b.csv: 0 of 50000 rows done", said())
	line.tell("waiting for the broker")
	require.Equal(t, "\r\x1b[Kwaiting for the broker\n\r\x1b[Ka\\u001b.csv: 0 of 50000 rows done", said())
	line.end()
	require.Equal(t, "\r\x1b[K", said())
	line.end()
	line.tell("done")
	require.Equal(t, "done\n", said())

	m := newMeter(line, false)
	for range 2 {
		m.show(importer.Progress{Total: 2, NothingSent: "nothing is sent: held by anna"})
	}
	require.Equal(t, "nothing is sent: held by anna\n"+strings.Repeat("\r\x1b[K0 of 2 orders settled; nothing is sent: held by anna", 2), said())
	m.end()
	require.Equal(t, "\r\x1b[K", said())
}

// TestNumbersAsPeopleWriteThem: the check asks, and flags or a mapping file answer.
func TestNumbersAsPeopleWriteThem(t *testing.T) {
	content := "order_no;timeout;Preis\nA-1;30;1,07\nA-2;30;1.234,50\n"
	flags := []string{"-", "--dry-run", "--rename", "Preis=price", "--type", "price=number"}
	got := run(t, nil, content, flags...)
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, `stdin:2:3: column Preis: "1,07" is 1.07 if the column's decimal sign is the comma, and no number of the column contradicts that. If it is: --accept price=decimal_comma`)
	got = run(t, nil, content, append(flags, "--accept", "price=decimal_comma")...)
	require.Contains(t, got.errOut, `stdin:3:3: column Preis: "1.234,50" is 1234.50 if what stands between its digits separates thousands. If it does: --accept price=thousands`)
	got = run(t, nil, content, append(flags, "--accept", "price=decimal_comma", "--accept", "price=thousands")...)
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, `{"order_no":"A-1","timeout":30,"price":1.07}`)
	require.Contains(t, got.out, `{"order_no":"A-2","timeout":30,"price":1234.5}`)

	mapping := filepath.Join(t.TempDir(), "mapping.yaml")
	require.NoError(t, os.WriteFile(mapping, []byte("rename: {Preis: price}\ntypes: {price: number}\naccept: {price: [decimal_comma, thousands]}\n"), 0o600))
	require.Equal(t, got.out, run(t, nil, content, "-", "--dry-run", "--mapping", mapping).out, "the same orders, and the same batch")
}

// TestRejectsFollowLinks, as results do, and replace neither a file that somebody wrote
// nor anything that is no file.
func TestRejectsFollowLinks(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) error {
		return writeUnlessEdited(t.Context(), path, func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
	kept, link := filepath.Join(dir, "kept.csv"), filepath.Join(dir, "link.csv")
	require.NoError(t, os.Symlink("kept.csv", link))
	isLink := func() {
		info, err := os.Lstat(link)
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink, "the link is still one")
	}
	require.NoError(t, write(link, "bad rows\n"), "a link to nothing")
	isLink()
	require.NoError(t, write(link, "bad rows\n"), "the same again")
	for _, other := range []string{"bad rows", "bad rows\nmore\n", "good rows\n"} {
		require.ErrorContains(t, write(link, other), "link.csv exists with other content; if it holds corrections, import it or move it away first", other)
	}
	require.NoError(t, os.WriteFile(kept, nil, 0o640)) //nolint:gosec // the mode is what the test looks at
	require.NoError(t, os.Chmod(kept, 0o640))
	require.NoError(t, write(link, "other rows\n"), "an empty file is replaced")
	isLink()
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "other rows\n", string(text))
	info, err := os.Stat(kept)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.ErrorContains(t, write(pipe, "x"), "pipe is no regular file")
	require.ErrorContains(t, write(dir, "x"), "is no regular file")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "no temporary file is left")
}
