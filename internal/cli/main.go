package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

// RunFunc runs a program within any process and returns its exit code.
type RunFunc func(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int

// Main runs a program with this process's arguments, environment and streams. The
// first SIGINT, SIGTERM or SIGHUP ends its context, a second one kills the process. If
// the parent ignores SIGHUP, as nohup does, it stays ignored.
func Main(run RunFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // signals then have their default effect again
	os.Exit(Guard(filepath.Base(os.Args[0]), run)(ctx, os.Args[1:], Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}

// ProcessName names this process for people: by its host, or else by the program, and its
// number.
func ProcessName(program string) string {
	host, err := os.Hostname()
	if err != nil {
		host = program
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}
