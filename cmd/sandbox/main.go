// Command sandbox is the order API as a local server, for trying orderpost out
// and for testing what it does when the API misbehaves.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"orderpost/internal/program/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := sandbox.Run(ctx, os.Args[1:], environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func environ() map[string]string {
	env := make(map[string]string)
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}
