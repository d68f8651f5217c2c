package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Person holds the flags about the person who acts: --by and --note.
type Person struct {
	Name, Note string
	claimed    journal.Known // from On
}

// Register adds the flags to a command. --by defaults to the user and the host.
func (p *Person) Register(cmd *cobra.Command, environ map[string]string) {
	cmd.Flags().StringVar(&p.Note, "note", "", "why, for the record")
	name := cmp.Or(environ["USER"], environ["LOGNAME"], environ["USERNAME"])
	if name != "" {
		name = atHost(name)
	}
	cmd.Flags().StringVar(&p.Name, "by", name, "your name, for the record")
}

// atHost adds this machine's name to a user's.
func atHost(user string) string {
	if host, err := os.Hostname(); err == nil && host != "" {
		return user + "@" + host
	}
	return user
}

// Actor returns the person as the journal names them. Without a name it is the
// process's user id.
func (p *Person) Actor() journal.Actor {
	if strings.TrimSpace(p.Name) == "" {
		return journal.Actor{Name: atHost(fmt.Sprintf("uid-%d", os.Getuid())), Known: journal.ByProcess}
	}
	return journal.Actor{Name: p.Name, Known: p.claimed}
}

// Settle returns the person as records name them.
func (p *Person) Settle() settle.Person { return settle.Person{Name: p.Actor().Name, Note: p.Note} }

// Acting is a person who acts by a command.
type Acting struct {
	Person
	command string
	stderr  io.Writer
}

// On returns the person once the flags of a command were read.
func (p *Person) On(cmd *cobra.Command) Acting {
	a := Acting{*p, cmd.CommandPath(), cmd.ErrOrStderr()}
	if a.claimed = journal.ByUser; cmd.Flags().Changed("by") {
		a.claimed = journal.ByFlag
	}
	return a
}

// Act journals what a command does: the intention before do, and do's result
// after it. about has all but the actor and the note. It is an error with
// nothing done if the intention cannot be written, unless safer says that the
// act makes things safer; nil = it does not. It is one, too, if the act needs a second person:
// then what was asked for is stored. do counts what became of the orders
// and may complete about.Details. A result that cannot be written is told to
// stderr.
func (a Acting) Act(ctx context.Context, q *queue.Queue, about journal.About, safer func(context.Context) bool, do func(context.Context) (map[string]int, error)) error {
	about.Actor, about.Note = a.Actor(), cmp.Or(about.Note, a.Note)
	act, err := approval.Begin(ctx, q, journal.New(q, a.command, cli.Version()), journal.Intention{About: about, Safer: safer})
	if asked, ok := errors.AsType[*approval.Asked](err); ok {
		return &cli.ExitError{Code: cli.ExitPartial, Err: asked}
	}
	if err != nil {
		return err
	}
	if missing := act.Unannounced(); missing != nil {
		warn(a.stderr, "WARNING: this %s is NOT in the journal. It goes on, because it makes things safer. Note down who did it, and why: %v", about.Kind, missing)
	}
	counts, err := do(ctx)
	if endErr := act.End(ctx, result(ctx, counts, err)); endErr != nil {
		warn(a.stderr, "WARNING: %v", endErr)
	} else if act.Unannounced() != nil {
		warn(a.stderr, "The journal could be written meanwhile: it has the result of this %s.", about.Kind)
	}
	return err
}

func warn(stderr io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(stderr, cli.Printable(fmt.Sprintf(format, args...)))
}

// result says how an act ended.
func result(ctx context.Context, counts map[string]int, err error) journal.Result {
	r := journal.Result{End: journal.Done, Counts: counts}
	switch {
	case err == nil:
		return r
	case cli.ExitCode(err) == cli.ExitPartial:
		r.End = journal.Partial
	case ctx.Err() != nil:
		r.End = journal.Stopped
	default:
		r.End = journal.Failed
	}
	r.Error = err.Error()
	return r
}
