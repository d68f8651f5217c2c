package broker

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/books"
	"orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// completeTimeout is how long a person who pressed the tab key waits.
	completeTimeout = 1500 * time.Millisecond
	// completeMost bounds what is offered.
	completeMost = 100
)

// CompleteBatch completes the name of an import.
func CompleteBatch(environ map[string]string) cobra.CompletionFunc {
	return complete(environ, func(ctx context.Context, q *queue.Queue, offer func(name, about string) error) error {
		imports, err := books.Imports(ctx, q)
		for _, imp := range imports {
			err = errors.Join(err, offer(imp.Batch, imp.File))
		}
		return err
	})
}

// CompleteLetter completes an order number by those of the dead letters, oldest
// first.
func CompleteLetter(environ map[string]string) cobra.CompletionFunc {
	return complete(environ, func(ctx context.Context, q *queue.Queue, offer func(name, about string) error) error {
		return books.LetterPages(ctx, q, func(page []*settle.Letter, _ []error) error {
			for _, l := range page {
				if err := offer(l.Name(), strings.TrimSuffix(l.Outcome.String()+", "+l.Reason, ", ")); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

var errEnoughOffered = errors.New("enough")

// complete asks the broker. Where the broker does not
// answer at once, nothing is offered and nothing is said: a person is in the
// middle of a line. A second argument has no values. It opens no store that a worker has left.
func complete(environ map[string]string, ask func(context.Context, *queue.Queue, func(name, about string) error) error) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const nothingElse = cobra.ShellCompDirectiveNoFileComp
		var cfg Config
		if len(args) > 0 || errors.Join(program.ReadEnv(&cfg, environ), cfg.Queue.Validate()) != nil {
			return nil, nothingElse
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		cfg.Queue.ConnectTimeout, cfg.Queue.BrokerWait = min(cfg.Queue.ConnectTimeout, completeTimeout), 0
		q, done, err := Open(ctx, cfg, Options{Name: "completion", Stderr: io.Discard})
		if err != nil {
			return nil, nothingElse
		}
		defer done()
		_ = ask(ctx, q, func(name, about string) error { // what was found until then is offered
			switch {
			case len(names) == completeMost:
				return errEnoughOffered
			case strings.HasPrefix(name, begun) && !strings.ContainsAny(name, "\n\t") && program.Printable(name) == name:
				names = append(names, cobra.CompletionWithDesc(name, oneLine(about)))
			}
			return nil
		})
		return names, nothingElse
	}
}

// oneLine keeps a description within its line.
func oneLine(text string) string { return strings.Join(strings.Fields(program.Printable(text)), " ") }
