package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// patience is how long a whole recording may take. One takes about forty seconds.
const patience = 2 * time.Minute

func main() {
	check := flag.Bool("check", false, "fail if the committed picture differs, instead of writing it")
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := run(ctx, *root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, check bool) (err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	build := exec.CommandContext(ctx, "go", "build", "-o", work, "./cmd/orderpost", "./cmd/sandbox")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	lines, err := record(ctx, work, filepath.Join(root, "examples", "orders.csv"))
	if err != nil {
		return fmt.Errorf("record: %w\n%s", err, strings.Join(lines, "\n"))
	}
	path := filepath.Join(root, "docs", "pictures", "kill.svg")
	committed, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	made := redrawn(committed, lines)
	if !check {
		fmt.Println(strings.Join(lines, "\n"))
		return os.WriteFile(path, made, 0o644) //nolint:gosec // a document, for everyone
	}
	if !bytes.Equal(committed, made) {
		return fmt.Errorf("docs/pictures/kill.svg is not what the programs show now; run `make pictures`, look at it, and commit it. They show:\n%s",
			strings.Join(lines, "\n"))
	}
	return nil
}
