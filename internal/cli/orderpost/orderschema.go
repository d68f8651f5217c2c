package orderpost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
)

// draft prints a first ORDERPOST_ORDER_SCHEMA, made from the orders of files.
type draft struct {
	files   []string
	mapping string
	all     bool
}

func (d *draft) run(ctx context.Context, environ map[string]string, stdout, stderr io.Writer) error {
	var cfg broker.Config
	if err := errors.Join(cli.ReadEnv(&cfg, environ), cfg.Queue.Validate()); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	options := importer.Options{SkipInvalid: true}
	if d.mapping != "" {
		r, err := os.Open(d.mapping)
		if err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("--mapping: %w", err)}
		}
		defer func() { _ = r.Close() }()
		if options.Mapping, err = importer.ReadMapping(d.mapping, r); err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("--mapping: %w", err)}
		}
	}
	var q *queue.Queue // nil: every row counts
	if !d.all {
		var done func()
		var err error
		if q, done, err = broker.Open(ctx, cfg, broker.Options{Name: "schema", Stderr: stderr}); err != nil {
			return err
		}
		defer done()
	}
	var made schema.Draft
	for _, name := range d.files {
		if err := d.read(ctx, q, name, options, &made, stderr); err != nil {
			return err
		}
	}
	if made.Orders() == 0 {
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New("no order of these files is known to be accepted; name files that were imported and whose results are kept still, or take every row (--all)")}
	}
	text, err := made.Text()
	if err == nil {
		_, err = stdout.Write(text)
	}
	return err
}

// read adds the orders of one file.
func (d *draft) read(ctx context.Context, q *queue.Queue, name string, options importer.Options, to *schema.Draft, stderr io.Writer) error {
	content, err := os.Open(name)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	defer func() { _ = content.Close() }()
	options.File = name
	f, err := importer.Open(content, options)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s, err := f.Check(ctx)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitPartial, Err: err}
	}
	if s.Invalid > 0 {
		out := "1 bad row is left out: "
		if s.Invalid > 1 {
			out = fmt.Sprintf("%d bad rows are left out, such as ", s.Invalid)
		}
		_, _ = fmt.Fprintf(stderr, "%s: %s%s\n", cli.Printable(name), out, cli.Printable(s.Bad[0].Error()))
	}
	return f.EachAccepted(ctx, q, to.Add)
}
