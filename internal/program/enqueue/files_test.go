package enqueue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
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
		go func() { code <- program.Guard("enqueue", Run)(ctx, args, settings, r, io.Discard, io.Discard) }()
		_, err := io.WriteString(w, "order_no,timeout\n")
		require.NoError(t, err)
		_, err = io.WriteString(w, "A-1,30\n") // the first write was taken
		require.NoError(t, err)
		files, err := os.ReadDir(data)
		require.NoError(t, err)
		require.Empty(t, files, "a kill now leaves nothing")
		stop()
		require.Equal(t, program.ExitInterrupted, <-code)
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
	require.Equal(t, program.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, "1 rows")

	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- Run(ctx, []string{pipe, "--dry-run"}, nil, nil, io.Discard, io.Discard) }()
	stop()
	require.Equal(t, program.ExitInterrupted, <-code)
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
	require.Equal(t, program.ExitFailed, got.code)
	require.Equal(t, "enqueue: standard input is longer than 1 MiB (--max-stdin); save it as a file and import that, files may have any size\n", got.errOut)
	require.Equal(t, program.ExitUsage, run(t, nil, "", "-", "--max-stdin", "0").code)
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	got := run(t, nil, "", dir)
	require.Equal(t, program.ExitUsage, got.code)
	require.Equal(t, "enqueue: "+dir+" is a folder; name the files in it: "+dir+"/*.csv\n", got.errOut)
}

// TestFileThatChanges: the error tells how to go on.
func TestFileThatChanges(t *testing.T) {
	settings := brokerSettings(t)
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
	errOut := &stopWhen{text: "rows done", stop: func() { _ = os.Truncate(file, 100_000) }}
	code := Run(t.Context(), []string{file, "--rate", "5000"}, settings, strings.NewReader(""), &out, errOut)
	require.Equal(t, program.ExitPartial, code, errOut.String())
	require.Regexp(t, `orders.csv: \d+ of 20000 rows done`, errOut.String())
	require.Contains(t, errOut.String(), "orders.csv: the file changed after it was checked: it differs after row ")
	require.Contains(t, errOut.String(), "and nothing from there on was enqueued. Put the right file in its place and run the command again")

	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	again := run(t, settings, "", file)
	require.Equal(t, program.ExitDone, again.code, again.errOut)
	require.Contains(t, again.out, "20000 rows")
}

// TestSpoiledCellsAreAsked: the error names the flag that answers it, and the
// flag and the mapping file are believed.
func TestSpoiledCellsAreAsked(t *testing.T) {
	const content = "order_no,timeout\n2026-12-31,30\n"
	got := run(t, nil, content, "-", "--dry-run")
	require.Equal(t, program.ExitPartial, got.code)
	require.Contains(t, got.errOut, `stdin:2:1: column order_no: "2026-12-31" looks like a date that a spreadsheet has made of an order number; format the column as text, enter the number again and export it. If it is right as it is: --accept order_no=excel_date`)
	require.Equal(t, program.ExitDone, run(t, nil, content, "-", "--dry-run", "--accept", "order_no=excel_date").code)
	mapping := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(mapping, []byte("accept: {order_no: [excel_date, excel_error]}\n"), 0o600))
	require.Equal(t, program.ExitDone, run(t, nil, content, "-", "--dry-run", "--mapping", mapping).code)
	require.Equal(t, program.ExitUsage, run(t, nil, content, "-", "--dry-run", "--accept", "order_no=yes").code)
	require.Equal(t, program.ExitUsage, run(t, nil, content, "-", "--dry-run", "--accept", "order_no").code)
}

// TestTerminalIsNotSteered by the header, the name of a file or a cell.
func TestTerminalIsNotSteered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a\x1b[2J.csv")
	for content, code := range map[string]int{
		"a\x1b[31m,b\u009b\nA,30\n": program.ExitPartial, "order_no,timeout\x1b[31m:int\nA,x\n": program.ExitPartial,
		"order_no,timeout,x\u009b2J\nA-1,30,y\u009b\n": program.ExitDone,
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
	require.Equal(t, program.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, "    1000 rows have field names with other characters than a-z, 0-9 and _: Artikel, Menge (first in line 2). They are sent as they are;\n"+
		"         if the API answers that the signature is wrong, use other names (--rename 'Artikel=NEW_NAME').\n")
	require.Contains(t, got.out, "       1 rows have numbers with an exponent such as 1e+21: n (first in line 702).")
	require.Less(t, strings.Count(got.out, "\n"), 12)
}

// TestProgressLines: an import that takes a while says how far it is.
func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	s := newSending(&out, "a.csv", 50_000)
	s.show(500)
	require.Empty(t, out.String(), "not at once")
	s.begun, s.next = s.begun.Add(-2*time.Second), time.Now()
	s.show(10_500)
	require.Regexp(t, `^a.csv: 10500 of 50000 rows done; \d+/s, \d+s left\n$`, out.String())
	s.show(11_000)
	require.Equal(t, 1, strings.Count(out.String(), "\n"), "not too often")
	s.end()
}
