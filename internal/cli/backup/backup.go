// Package backup has the commands backup and restore: all streams in one file, encrypted if wanted, and back.
// backup.go makes a file, restore.go reads one; package queue knows what is in it.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/fleet"
	"orderpost/internal/platform/durable"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const backupLong = `backup copies the streams of an installation into FILE: what is pending and what waits, the results, the dead
letters, the journal and what the fleet shares. It runs while orders flow, and holds the fleet at its end, until
the copies fit together: less than a second, or as long as the API takes for the requests that it has. FILE
has the bodies of orders in it. With --recipient it is encrypted by age (age-encryption.org).

A backup that nobody has tried is none:
  ORDERPOST_DATA_DIR=try orderpost restore FILE && ORDERPOST_DATA_DIR=try orderpost audit`

// heldAtMost is how long a backup may hold the fleet. It holds it for holdTerm at a time, so that the hold ends by
// itself if backup is killed, and in what is restored.
const heldAtMost, holdTerm = 2 * time.Minute, 10 * time.Second

type backupCommand struct {
	environ    map[string]string
	stderr     io.Writer
	person     broker.Person
	recipients []string
	json       bool
}

// made is what backup prints with --json.
type made struct {
	File     string    `json:"file"`
	AsOf     time.Time `json:"as_of"`
	Messages uint64    `json:"messages"`
	Bytes    int64     `json:"bytes"`
	Held     float64   `json:"held_seconds"`
}

// NewCommands returns the commands backup and restore.
func NewCommands(environ map[string]string, stderr io.Writer) []*cobra.Command {
	c := &backupCommand{environ: environ, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "backup FILE",
		Short:   "Copy all streams into one file, while orders flow",
		Long:    backupLong,
		Example: "  orderpost backup 2026-11-30.orderpost --recipient age1…",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	cmd.Flags().StringArrayVar(&c.recipients, "recipient", nil, "encrypt for this `age1…`; may be repeated")
	c.person.Register(cmd, environ)
	cli.JSONFlag(cmd, &c.json, "backup")
	return []*cobra.Command{broker.Patient(cmd, environ, "; it begins anew"), newRestoreCommand(environ, stderr)}
}

func (c *backupCommand) run(cmd *cobra.Command, path string) (err error) {
	var cfg broker.Config
	recipients, err := parseRecipients(c.recipients)
	if err := errors.Join(err, cli.ReadEnv(&cfg, c.environ), cfg.Queue.Validate()); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if path == "" || path == "-" {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("FILE is %q: give the name of a file; standard output cannot be a backup", path)}
	}
	if _, err := os.Lstat(path); err == nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s exists: give another name", path)}
	}
	ctx := cmd.Context()
	q, done, err := broker.Open(ctx, cfg, broker.Options{Name: "backup", StartStopped: true, Stderr: c.stderr})
	if err != nil {
		return err
	}
	defer done()
	var is made
	err = durable.Write(path, os.Link, func(file io.Writer) error { // never over another file
		if len(recipients) == 0 {
			return c.write(cmd, q, file, &is)
		}
		sealed, err := age.Encrypt(file, recipients...)
		if err == nil {
			err = c.write(cmd, q, sealed, &is)
		}
		if err == nil {
			err = sealed.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	is.File, is.Bytes = path, info.Size()
	if c.json {
		return cli.PrintJSON(cmd.OutOrStdout(), is)
	}
	how := "not encrypted: it has the bodies of orders"
	if n := len(recipients); n > 0 {
		how = fmt.Sprintf("encrypted for %d", n)
	}
	text := fmt.Sprintf("%s has %d messages, as of %s: %d bytes, %s.", path, is.Messages, is.AsOf.Format(time.RFC3339), is.Bytes, how)
	if held := time.Duration(is.Held * float64(time.Second)); held > 0 {
		text += fmt.Sprintf(" The fleet was held for %s.", held.Round(10*time.Millisecond))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// write writes the backup, and what is known of it into is.
func (c *backupCommand) write(cmd *cobra.Command, q *queue.Queue, out io.Writer, is *made) error {
	b := queue.NewBackup(q, out)
	held, err := c.copy(cmd, q, b)
	if err == nil {
		err = b.Close()
	}
	is.Held = held.Seconds()
	is.AsOf, is.Messages = b.Made()
	return err
}

// copy copies everything. If records are written all the time, it holds the fleet until the copies are consistent,
// and returns for how long.
func (c *backupCommand) copy(cmd *cobra.Command, q *queue.Queue, b *queue.Backup) (held time.Duration, err error) {
	for range 2 { // the first takes long, so that orders were settled since; the second does not
		if consistent, err := b.CatchUp(cmd.Context()); err != nil || consistent {
			return 0, err
		}
	}
	about := journal.About{Kind: journal.Hold, Note: holdReason, Details: map[string]string{"lasts": "until it is consistent"}}
	err = c.person.On(cmd).Act(cmd.Context(), q, about, journal.Always, func(ctx context.Context) (map[string]int, error) {
		began, control, by := time.Now(), fleet.New(q), c.person.Actor().Name
		err := finish(ctx, control, by, b)
		err = errors.Join(err, resume(context.WithoutCancel(ctx), control, by))
		held = time.Since(began)
		return nil, err
	})
	return held, err
}

// holdReason is what the fleet is told.
const holdReason = "a backup ends"

// finish holds the fleet, again and again, until the copies are consistent.
func finish(ctx context.Context, control *fleet.Control, by string, b *queue.Backup) error {
	ctx, cancel := context.WithTimeoutCause(ctx, heldAtMost, fmt.Errorf("orders were recorded for %s although the fleet was held", heldAtMost))
	defer cancel()
	for hold := (fleet.Hold{}); ; {
		if time.Since(hold.Since) > holdTerm/2 {
			hold = fleet.Hold{Reason: holdReason, By: by, Since: time.Now().UTC(), For: holdTerm}
			if err := control.Prolong(ctx, hold); err != nil && !errors.As(err, new(*fleet.LongerHold)) { // or somebody holds it already
				return cmp.Or(context.Cause(ctx), err)
			}
		}
		consistent, err := b.CatchUp(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if consistent {
			return nil
		}
		if settle.Sleep(ctx, between) != nil {
			return context.Cause(ctx)
		}
	}
}

// resume ends the hold of a backup, and no other.
func resume(ctx context.Context, control *fleet.Control, by string) error {
	ctx, cancel := context.WithTimeout(ctx, holdTerm)
	defer cancel()
	seen, err := control.Read(ctx)
	if err == nil && seen.Hold != nil && seen.Hold.By == by && seen.Hold.Reason == holdReason {
		err = control.EndHoldAsSeen(ctx, seen)
	}
	if errors.Is(err, fleet.ErrSteered) {
		return nil // a person did
	}
	return err
}

// between is the time between two looks whether all requests that the API had are recorded.
const between = 20 * time.Millisecond

func parseRecipients(texts []string) (recipients []age.Recipient, err error) {
	for _, text := range texts {
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("--recipient %q is no public key of age, such as age1… (age-keygen makes a pair): %w", text, err)
		}
		recipients = append(recipients, some...)
	}
	return recipients, nil
}
