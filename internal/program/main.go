package program

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// RunFunc is a program without its process.
type RunFunc func(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int

// Main runs a program with this process's arguments, environment and streams.
// The first SIGINT, SIGTERM or SIGHUP (the terminal or the SSH session is gone)
// ends its context; a second one kills it. A SIGHUP that our parent ignores, as
// nohup does, stays ignored.
func Main(run RunFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // from then on signals have their default effect
	os.Exit(Guard(filepath.Base(os.Args[0]), run)(ctx, os.Args[1:], Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}
