package enqueue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
)

// TestResultsReplaceNothingElse: the input, also by another name, and files that hold
// something else are refused before anything is enqueued.
func TestResultsReplaceNothingElse(t *testing.T) {
	settings := brokerSettings(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const content, notes = "order_no,timeout\nA-1,30\n", "my notes\n"
	require.NoError(t, os.WriteFile(at("orders.csv"), []byte(content), 0o600))
	require.NoError(t, os.WriteFile(at("notes"), []byte(notes), 0o600))
	require.NoError(t, os.Symlink("orders.csv", at("link")))
	require.NoError(t, os.Link(at("orders.csv"), at("hard")))
	for path, why := range map[string]string{
		at("orders.csv"): " is the imported file, ", at("link"): " is the imported file, ", at("hard"): " is the imported file, ",
		at("notes"): " exists and holds no results of an import, ", dir: " is a folder; ",
	} {
		got := run(t, settings, "", at("orders.csv"), "--results", path)
		require.Equal(t, cli.ExitUsage, got.code, path)
		require.Contains(t, got.errOut, "enqueue: nothing was enqueued: --results: "+path+why)
	}
	require.NotContains(t, run(t, settings, "", "status").out, "orders.csv")

	require.Equal(t, cli.ExitDone, run(t, settings, "", at("orders.csv"), "--batch", "march").code)
	for path, why := range map[string]string{at("link"): "is the imported file", at("notes"): "holds no results"} {
		got := run(t, settings, "", "results", "march", "-o", path)
		require.Equal(t, cli.ExitUsage, got.code, got.errOut)
		require.Contains(t, got.errOut, why)
	}
	for name, want := range map[string]string{"orders.csv": content, "notes": notes} {
		text, err := os.ReadFile(at(name))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}

	// Results replace results, through links, with the mode that they had.
	require.NoError(t, os.Mkdir(at("far"), 0o700))
	require.NoError(t, os.Symlink("far/out.csv", at("out.csv")))
	for try := range 2 {
		got := run(t, settings, "", "results", "march", "-o", at("out.csv"))
		require.Equal(t, cli.ExitPartial, got.code, "the order is pending")
		require.Contains(t, got.errOut, "1 pending")
		info, err := os.Lstat(at("out.csv"))
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink)
		info, err = os.Lstat(at("far/out.csv"))
		require.NoError(t, err)
		require.Equal(t, map[int]os.FileMode{0: 0o600, 1: 0o640}[try], info.Mode())
		require.NoError(t, os.Chmod(at("far/out.csv"), 0o640))
	}
	left, err := os.ReadDir(at("far"))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file is left")
}

// TestResultsWithoutAFolder: a folder that takes no file is refused before anything is
// enqueued. If it goes later, the error says how to get the rows.
func TestResultsWithoutAFolder(t *testing.T) {
	q, settings := startStreams(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("orders.csv"), []byte("order_no,timeout\nA-1,30\n"), 0o600))
	require.NoError(t, os.Symlink("gone/out.csv", at("link.csv")))
	for path, why := range map[string]string{at("gone/out.csv"): "no such file or directory", at("link.csv"): "no such file or directory", at("orders.csv/out.csv"): "not a directory"} {
		got := run(t, settings, "", at("orders.csv"), "--results", path)
		require.NotEqual(t, cli.ExitDone, got.code)
		require.Contains(t, got.errOut, "enqueue: nothing was enqueued: --results: ")
		require.Contains(t, got.errOut, why)
	}
	require.NotContains(t, run(t, settings, "", "status").out, "orders.csv")

	require.NoError(t, os.Mkdir(at("gone"), 0o700))
	done := make(chan enqueued, 1)
	go func() {
		done <- run(t, settings, "", at("orders.csv"), "--batch", "april", "--results", at("gone/out.csv"))
	}()
	require.Eventually(t, func() bool {
		imp, err := imports.ReadImport(t.Context(), q, "april")
		return err == nil && imp != nil && imp.Complete()
	}, time.Minute, 10*time.Millisecond)
	left, err := os.ReadDir(at("gone"))
	require.NoError(t, err)
	require.Empty(t, left, "the look leaves nothing behind")
	require.NoError(t, os.Remove(at("gone")))
	besideWorker(t, q, func() {
		require.Equal(t, cli.ExitDone, run(t, settings, "", "cancel", "april").code)
		got := <-done
		require.NotEqual(t, cli.ExitDone, got.code)
		require.Contains(t, got.errOut, "results not written: ")
		require.Contains(t, got.errOut, "orderpost enqueue results april -o FILE")
	})
}

// TestResultsIntoPipes: what is no regular file is written directly and stays what it is.
func TestResultsIntoPipes(t *testing.T) {
	settings := brokerSettings(t)
	file, pipe := filepath.Join(t.TempDir(), "orders.csv"), filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, os.WriteFile(file, []byte("order_no,timeout\nA-1,30\n"), 0o600))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.Equal(t, cli.ExitDone, run(t, settings, "", file, "--batch", "march").code)
	read := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	run(t, settings, "", "results", "march", "-o", pipe)
	require.Contains(t, <-read, "\nA-1,30,pending,")
	info, err := os.Lstat(pipe)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeNamedPipe)

	got := run(t, settings, "", "results", "march", "-o", os.DevNull)
	require.Equal(t, cli.ExitPartial, got.code, got.errOut)
	info, err = os.Lstat(os.DevNull)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeDevice)

	// A pipe that nobody reads is waited for until a signal.
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"results", "march", "-o", pipe}, settings, strings.NewReader(""), io.Discard, io.Discard)
	}()
	stop()
	require.Equal(t, cli.ExitInterrupted, <-code)
	require.Eventually(t, func() bool { // let the goroutine end that may wait to open it
		r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_ = r.Close()
		}
		return err == nil
	}, time.Minute, time.Millisecond)
}

// TestResultsOnStandardOutput: the rows stand alone there.
func TestResultsOnStandardOutput(t *testing.T) {
	q, settings := startStreams(t)
	t.Chdir(t.TempDir())
	file := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(file, []byte("order_no,timeout\nA-1,30\n"), 0o600))
	require.Equal(t, cli.ExitDone, run(t, settings, "", file, "--batch", "march").code)
	besideWorker(t, q, func() {
		require.Equal(t, cli.ExitDone, run(t, settings, "", "cancel", "march").code)
	})
	for _, name := range []string{"-", "/dev/stdout"} {
		// The orders are settled, so that there is nothing to wait for.
		got := run(t, settings, "", file, "--batch", "april", "--results", name)
		require.Equal(t, cli.ExitPartial, got.code, got.errOut)
		require.Regexp(t, `^order_no,timeout,_outcome,.*\nA-1,30,cancelled,.*\n$`, got.out)
		require.Contains(t, got.errOut, "1 cancelled")
		require.NotContains(t, got.errOut, "every row with its outcome")
	}
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left, "no file has the name -")
	require.Equal(t, cli.ExitUsage, run(t, settings, "", file, "--results", "-", "--json").code)
}

// TestResultsAreWholeOrNotThere: what fails in the middle changes nothing.
func TestResultsAreWholeOrNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	failed := errors.New("the broker went away")
	err := replace(path, func(w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte("new"), 1<<16))
		return errors.Join(err, failed)
	})
	require.ErrorIs(t, err, failed)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	loop := filepath.Join(filepath.Dir(path), "loop")
	require.NoError(t, os.Symlink("loop", loop))
	require.ErrorContains(t, replace(loop, func(io.Writer) error { return nil }), "too many links")
}
