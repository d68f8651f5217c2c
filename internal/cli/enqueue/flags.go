package enqueue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
)

// importOptions are the flags of an import. Those that every way in has are importer.Choices.
type importOptions struct {
	source, mapping, results  string
	like                      string // the import whose mapping is taken; "" = of none
	maxStdin                  int64
	dryRun, wait, json, quiet bool
	person                    broker.Person
}

func (o *importOptions) register(cmd *cobra.Command, environ map[string]string) {
	f := cmd.Flags()
	f.SortFlags = false
	f.String("format", "auto", "csv, ndjson, xlsx, or auto: by the content")
	f.String("sheet", "", "the sheet of a workbook (default: the only one with content)")
	f.Int("header-row", 0, "the row that names the columns; what is above it is left out (default: the first with content)")
	f.StringArray("skip-rows", nil, "rows to leave out, by the numbers in messages, as in 27,30-32 (repeatable)")
	f.String("encoding", "auto", strings.Join(importer.Encodings(), ", "))
	f.String("delimiter", "", "one character, or tab (default: detected)")
	f.StringArray("type", nil, "NAME=int|number|bool|json|string: the type of a field (repeatable)")
	f.StringArray("rename", nil, "COLUMN=NAME: the field's name of a column (repeatable)")
	f.StringArray("leave-out", nil, "a column that is not sent; '' names those without a name (repeatable)")
	f.StringArray("set", nil, "NAME=VALUE or NAME:TYPE=VALUE: a field that every order has (repeatable)")
	f.String("empty", "", "empty cells become: string (the default), omit, null")
	f.String("order-no-template", "", "order numbers for a file without them, from {batch} and {row}")
	f.StringArray("accept", nil, "NAME=CODE: the answer to what the check asks about cells of a field, as in price=decimal_comma (repeatable)")
	f.String("trailer", "", "how the file's last record is known, and where its totals stand, as in '{value: T, rows: 2, sums: {amount: 3}}'")
	f.StringVar(&o.mapping, "mapping", "", "YAML file with types, rename, leave_out, set, empty, order_no_template, accept, trailer, or the name of an earlier import; flags go first")
	f.BoolVar(&o.dryRun, "dry-run", false, "check the files and show the first orders; enqueue nothing")
	f.Bool("skip-invalid", false, "enqueue the good rows; the bad ones go to FILE.rejects.csv (or .xlsx)")
	f.Int("max-errors", importer.DefaultMaxErrors, "how many bad rows are listed")
	f.Bool("retry-failed", false, "enqueue unchanged orders again that certainly were not created")
	f.String("batch", "", "name of the import (default: a hash of content and mapping)")
	f.StringVar(&o.source, "source", "", "name of the file in messages and results (default: as given)")
	f.String("deadline", "", "RFC 3339 time after which the orders are not sent any more")
	f.String("not-before", "", "RFC 3339 time before which the orders are not sent; a column _not_before has a row's own")
	f.Bool("allow-past", false, "take a --not-before or a row's _not_before that is over: such orders are sent at once")
	f.String("lane", order.BulkLane, "lane of the waiting room; lanes take turns by their weights")
	f.Bool("direct", false, "leave out the waiting room: orders that come later wait behind all of these")
	f.Float64("rate", 0, "orders enqueued per second at most (default: no limit)")
	f.Int64Var(&o.maxStdin, "max-stdin", defaultMaxStdin, "MiB of standard input or of a pipe that are kept at most")
	f.Int("canary", 0, "enqueue this many orders first, and the rest once all of them are accepted")
	f.Int("expect-rows", 0, "refuse the file unless it has this many orders to send")
	f.StringArray("expect-sum", nil, "NAME=NUMBER: refuse the file unless a field adds up to exactly this (repeatable)")
	f.BoolVar(&o.wait, "wait", false, "wait until every order has its outcome")
	f.StringVar(&o.results, "results", "", "write every row with its outcome to this file, as a workbook if it ends in .xlsx, else as CSV; - is standard output; implies --wait")
	cli.NotEmpty(cmd, "sheet", "order-no-template", "mapping", "deadline", "not-before", "lane", "results") // without its time an order would be sent at once
	o.person.Register(cmd, environ)
	cli.JSONFlag(cmd, &o.json, "import", "outcomes")
	f.BoolVar(&o.quiet, "quiet", false, "print nothing but errors")
	_ = cmd.MarkFlagFilename("mapping", "yaml", "yml") // the flag exists
	cli.CompleteFiles(cmd)
	cli.CompleteFiles(cmd, "results")
	for name, values := range map[string][]string{"format": {"auto", "csv", "ndjson", "xlsx"}, "encoding": importer.Encodings(), "empty": {"string", "omit", "null"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// settings reads flags and environment. Its error names every mistake.
func (o *importOptions) settings(flags *pflag.FlagSet, files []string, environ map[string]string) (cfg broker.Config, out importer.Options, err error) {
	c, err := o.choices(flags)
	errs := []error{err, c.Check(), c.CheckDeadline(), cli.ReadEnv(&cfg, environ), cfg.Queue.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(files) > 1 && c.Batch != "" {
		bad("--batch: give it with a single file; each file is an import of its own")
	}
	if len(files) > 1 && o.source != "" {
		bad("--source: give it with a single file")
	}
	if len(files) > 1 && (c.Expect.Rows != nil || len(c.Expect.Sums) > 0) {
		bad("--expect-rows, --expect-sum: give them with a single file")
	}
	if len(files) > 1 && o.results != "" {
		bad("--results: give it with a single file")
	}
	if o.json && isStdout(o.results) {
		bad("--json: prints a summary on standard output, where the rows go; name a file for them by --results")
	}
	if o.dryRun && (o.wait || o.results != "") {
		bad("--dry-run: enqueues nothing, so there is nothing to wait for")
	}
	if o.maxStdin < 1 {
		bad("--max-stdin: %d is not a number of MiB", o.maxStdin)
	}
	schema, wrong := cfg.Schema.Load(zerolog.Nop())
	out = c.Options()
	out.Schema = schema
	return cfg, out, errors.Join(append(errs, wrong)...)
}

// choices reads the flags that every way in has, and the mapping file, before which they go.
func (o *importOptions) choices(flags *pflag.FlagSet) (*importer.Choices, error) {
	c := &importer.Choices{Now: time.Now(), Prefix: "--"}
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(importer.OptionNames(), f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			errs = append(errs, c.Set(f.Name, value))
		}
	})
	if o.mapping != "" {
		r, err := os.Open(o.mapping)
		switch {
		case err == nil:
			defer func() { _ = r.Close() }()
			err = c.ReadMapping(o.mapping, r)
		case errors.Is(err, fs.ErrNotExist) && importer.CheckBatch(o.mapping) == nil && filepath.Ext(o.mapping) != ".yaml" && filepath.Ext(o.mapping) != ".yml":
			o.like, err = o.mapping, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--mapping: %w", err))
		}
	}
	return c, errors.Join(errs...)
}
