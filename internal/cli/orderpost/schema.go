package orderpost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	schemas "orderpost/docs/schema"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
)

// newSchemaCommand prints the JSON Schemas.
func newSchemaCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	var d draft
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print a JSON Schema: of a file that you write, or of what --json prints",
		Long: "schema prints the JSON Schema of a rules file or a mapping file (draft 7, which editors read), or of a\n" +
			"message in the streams or the output of a command's --json (draft 2020-12); without NAME it lists them.\n" +
			"The help of a command's --json names its schema. An editor that knows JSON Schema checks and completes a\n" +
			"YAML file whose first line names one:\n\n" +
			"  # yaml-language-server: $schema=rules.schema.json\n\n" +
			"schema order --from FILE prints something else: a first schema for ORDERPOST_ORDER_SCHEMA, which your orders\n" +
			"must fulfil. It is made from the orders of files that were imported and that the API accepted, by the results\n" +
			"that are kept. Nothing else has their bodies: the streams forget an order's body once it is accepted. Edit it;\n" +
			"`orderpost help configuration 'Your own order schema'` says how it is used.",
		Example:   "  orderpost schema\n  orderpost schema rules > rules.schema.json\n  orderpost schema fleet\n  orderpost schema order --from march.csv > order.schema.json",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: schemas.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(d.files) > 0 {
				if len(args) != 1 || args[0] != "order" {
					return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--from: only the schema of an order is made from files: orderpost schema order --from FILE")}
				}
				return d.run(cmd.Context(), environ, out, stderr)
			}
			if len(args) == 0 {
				for _, name := range schemas.Names() {
					_, _ = fmt.Fprintf(out, "%-13s %s\n", name, schemas.Title(name))
				}
				return nil
			}
			text, err := schemas.Text(args[0])
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("there is no schema %q; there are %s", args[0], strings.Join(schemas.Names(), ", "))}
			}
			_, err = fmt.Fprint(out, text)
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVar(&d.files, "from", nil, "FILE of orders (CSV, NDJSON, XLSX) to make a first order schema from (repeatable)")
	f.StringVar(&d.mapping, "mapping", "", "with --from: YAML file that says how to read columns, as for enqueue")
	f.BoolVar(&d.all, "all", false, "with --from: take every good row, not only accepted orders")
	_ = cmd.MarkFlagFilename("mapping", "yaml", "yml") // the flag exists
	cli.CompleteFiles(cmd, "from")
	cli.NoJSON(cmd, "a schema is JSON; the list is for people")
	return cmd
}

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
	options := importer.Options{Sending: importer.Sending{SkipInvalid: true}}
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
