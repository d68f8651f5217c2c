package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The story: an API leaves one answer in ten waiting for ten seconds. The worker has
// 64 orders in flight at most, so it stands still when 64 of them have no answer: the
// API has created them, and nobody has told the worker. In that moment it is killed,
// and with it the broker that runs inside it. A second worker asks the API about those
// 64 again, and the books balance.

// record plays the story and returns the lines of the terminal.
func record(ctx context.Context, work, orders string) (_ []string, err error) {
	if err := os.Symlink(orders, filepath.Join(work, "orders.csv")); err != nil {
		return nil, err
	}
	term, err := openTerminal(ctx, work, append(os.Environ(), "PATH="+work+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+work, "NO_COLOR=1", "ORDERPOST_SANDBOX_ADDR=127.0.0.1:0", "ORDERPOST_OPS_ADDR=127.0.0.1:0",
		"ORDERPOST_ACK_WAIT=5s")) // a killed worker's claims end after 5 s instead of 30 s
	if err != nil {
		return nil, err
	}
	defer func() { term.close() }()
	s := &story{work: work, terminal: term}
	for _, step := range []func(context.Context) error{
		s.typed("sandbox --fault-slow 0.1 --slow-delay 10s &> api.log &   # 1 answer in 10 is late"),
		s.listens,
		s.typed("source <(grep export api.log)   # its address, and a key"),
		s.typed("orderpost worker 2> worker.log &"),
		s.works,
		s.typed("orderpost enqueue orders.csv --wait &> import.log &"),
		s.stands,
		s.typed("orderpost audit | head -3"),
		s.kill,
		s.typed("orderpost worker 2>> worker.log &"),
		s.typed("wait %3; tail -n 2 import.log"),
		s.settled,
		s.typed("orderpost audit"),
		s.typed("kill %1; wait %1; grep -A3 duplicate api.log   # the API's own count"),
	} {
		if err := step(ctx); err != nil {
			return term.lines(), err
		}
	}
	return term.lines(), nil
}

type story struct {
	work     string
	terminal *terminal
	api      string
}

func (s *story) typed(command string) func(context.Context) error {
	return func(context.Context) error { return s.terminal.run(command) }
}

var export = regexp.MustCompile(`export ORDERPOST_API_URL=(\S+)(?s:.*)ORDERPOST_API_SECRET=.*\n`)

func (s *story) listens(ctx context.Context) error {
	return s.until(ctx, "the sandbox listens", func() (bool, error) {
		found := export.FindStringSubmatch(s.file("api.log"))
		if found == nil {
			return false, nil
		}
		s.api = found[1]
		return true, nil
	})
}

func (s *story) works(ctx context.Context) error {
	return s.until(ctx, "the worker works", func() (bool, error) {
		return strings.Contains(s.file("worker.log"), `"message":"working"`), nil
	})
}

// file is what a program has written so far; the shell may not have made it yet.
func (s *story) file(name string) string {
	said, err := os.ReadFile(filepath.Join(s.work, name))
	if err != nil {
		return ""
	}
	return string(said)
}

// stands waits until the worker stands still: what the API has created, less the 64
// unanswered, is settled.
func (s *story) stands(ctx context.Context) error {
	return s.until(ctx, "64 orders hang", func() (bool, error) {
		created, err := s.created(ctx)
		if err != nil || created < 64 {
			return false, err
		}
		books, err := s.audit(ctx)
		if err != nil || books.Settled != created-64 || books.Unacked != 0 {
			return false, err
		}
		again, err := s.created(ctx)
		return again == created, err
	})
}

var started = regexp.MustCompile(`(?m)^\[2\] (\d+)`)

// kill ends the worker by its process id, which the shell has printed.
func (s *story) kill(ctx context.Context) error {
	found := started.FindStringSubmatch(s.terminal.text())
	if found == nil {
		return errors.New("the shell did not print the worker's process id")
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		return err
	}
	if err := s.terminal.run("kill -9 " + found[1] + "   # 64 orders are at the API, unanswered"); err != nil {
		return err
	}
	return s.until(ctx, "the worker is gone", func() (bool, error) { // then the shell says so with its next prompt
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
	})
}

// settled waits until the broker has removed what is settled.
func (s *story) settled(ctx context.Context) error {
	return s.until(ctx, "every order is settled", func() (bool, error) {
		books, err := s.audit(ctx)
		return err == nil && books.Pending == 0 && books.Waiting == 0 && books.Unacked == 0, err
	})
}

func (s *story) created(ctx context.Context) (orders int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api+"/_sandbox/ledger", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var ledger struct {
		Created int `json:"orders_created"`
	}
	err = json.NewDecoder(resp.Body).Decode(&ledger)
	return ledger.Created, err
}

type books struct{ Settled, Pending, Waiting, Unacked int }

func (s *story) audit(ctx context.Context) (b books, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.work, "orderpost"), "audit", "--json")
	cmd.Dir, cmd.Stderr = s.work, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return b, fmt.Errorf("orderpost audit: %w", err)
	}
	return b, json.Unmarshal(out, &b)
}

func (s *story) until(ctx context.Context, what string, reached func() (bool, error)) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := reached()
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
	}
}
