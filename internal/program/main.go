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
// The first SIGINT or SIGTERM ends its context; a second one kills it.
func Main(run RunFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from then on signals have their default effect
	os.Exit(Guard(filepath.Base(os.Args[0]), run)(ctx, os.Args[1:], Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}
