package broker

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// completeTimeout is the longest wait after a press of the tab key.
	completeTimeout = 1500 * time.Millisecond
	// maxCompletions is the largest number of completions.
	maxCompletions = 100
)

// CompleteBatch completes the name of an import.
func CompleteBatch(environ map[string]string) cobra.CompletionFunc {
	return complete(environ, func(ctx context.Context, q *queue.Queue, offer func(name, about string) error) error {
		imports, err := imports.Imports(ctx, q)
		for _, imp := range imports {
			err = errors.Join(err, offer(imp.Batch, imp.File))
		}
		return err
	})
}

// CompleteLetter completes the order number of a dead letter, oldest first.
func CompleteLetter(environ map[string]string) cobra.CompletionFunc {
	return complete(environ, func(ctx context.Context, q *queue.Queue, offer func(name, about string) error) error {
		return deadletter.EachLetter(ctx, q, func(l *settle.Letter) error {
			return offer(l.Name(), strings.TrimSuffix(l.Outcome.String()+", "+l.Reason, ", "))
		})
	})
}

// CompleteReason completes the reason of a dead letter.
func CompleteReason(environ map[string]string) cobra.CompletionFunc {
	return completeLetters(environ, func(l *settle.Letter) string { return l.Reason })
}

// CompleteAnswer completes what the answer to the order of a dead letter says.
func CompleteAnswer(environ map[string]string) cobra.CompletionFunc {
	return completeLetters(environ, func(l *settle.Letter) string { return l.Said })
}

// completeLetters completes a text that many dead letters have in common.
func completeLetters(environ map[string]string, text func(*settle.Letter) string) cobra.CompletionFunc {
	return complete(environ, func(ctx context.Context, q *queue.Queue, offer func(name, about string) error) error {
		offered := make(map[string]bool)
		return deadletter.EachLetter(ctx, q, func(l *settle.Letter) error {
			one := text(l)
			if offered[one] || one == "" {
				return nil
			}
			offered[one] = true
			return offer(one, l.Outcome.String())
		})
	})
}

var errEnoughOffered = errors.New("enough")

// complete returns a completion of the first argument with values from the broker. If
// the broker does not answer soon, it offers nothing and prints nothing, because the
// user is typing. It does not open a store that no worker has open.
func complete(environ map[string]string, ask func(context.Context, *queue.Queue, func(name, about string) error) error) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const nothingElse = cobra.ShellCompDirectiveNoFileComp
		var cfg Config
		if len(args) > 0 || errors.Join(cli.ReadEnv(&cfg, environ), cfg.Queue.Validate()) != nil {
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
		_ = ask(ctx, q, func(name, about string) error { // offer what was found before an error
			switch {
			case len(names) == maxCompletions:
				return errEnoughOffered
			case strings.HasPrefix(name, begun) && !strings.ContainsAny(name, "\n\t") && cli.Printable(name) == name:
				names = append(names, cobra.CompletionWithDesc(name, oneLine(about)))
			}
			return nil
		})
		return names, nothingElse
	}
}

// oneLine returns a description without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(cli.Printable(text)), " ") }
