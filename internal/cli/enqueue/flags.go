package enqueue

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
)

// importOptions are the flags of an import.
type importOptions struct {
	batch, source, deadline          string
	lane, notBefore                  string
	direct, allowPast                bool
	format, encoding, delimiter      string
	sheet                            string
	mappingFile, empty, template     string
	types, renames, constants        []string
	accepted                         []string
	maxStdin                         int64
	skipInvalid, dryRun, retryFailed bool
	wait, json, quiet                bool
	maxErrors, canary                int
	rate                             float64
	results                          string
	person                           broker.Person

	// base is a mapping file that was read already. now is the moment by which times are judged;
	// zero = this one. daily permits a --not-before without a date. All three are for folders.
	base  importer.Mapping
	now   time.Time
	daily bool
}

func (o *importOptions) register(cmd *cobra.Command, environ map[string]string) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.format, "format", "auto", "csv, ndjson, xlsx, or auto: by the content")
	f.StringVar(&o.sheet, "sheet", "", "the sheet of a workbook (default: the only one with content)")
	f.StringVar(&o.encoding, "encoding", "auto", strings.Join(importer.Encodings(), ", "))
	f.StringVar(&o.delimiter, "delimiter", "", "one character, or tab (default: detected)")
	f.StringArrayVar(&o.types, "type", nil, "NAME=int|number|bool|json|string: the type of a field (repeatable)")
	f.StringArrayVar(&o.renames, "rename", nil, "COLUMN=NAME: the field's name of a column (repeatable)")
	f.StringArrayVar(&o.constants, "set", nil, "NAME=VALUE or NAME:TYPE=VALUE: a field that every order has (repeatable)")
	f.StringVar(&o.empty, "empty", "", "empty cells become: string (the default), omit, null")
	f.StringVar(&o.template, "order-no-template", "", "order numbers for a file without them, from {batch} and {row}")
	f.StringArrayVar(&o.accepted, "accept", nil, "NAME=CODE: the answer to what the check asks about cells of a field, as in price=decimal_comma (repeatable)")
	f.StringVar(&o.mappingFile, "mapping", "", "YAML file with types, rename, set, empty, order_no_template, accept; flags go first")
	f.BoolVar(&o.dryRun, "dry-run", false, "check the files and show the first orders; enqueue nothing")
	f.BoolVar(&o.skipInvalid, "skip-invalid", false, "enqueue the good rows; the bad ones go to FILE.rejects.csv (or .xlsx)")
	f.IntVar(&o.maxErrors, "max-errors", importer.DefaultMaxErrors, "how many bad rows are listed")
	f.BoolVar(&o.retryFailed, "retry-failed", false, "enqueue unchanged orders again that certainly were not created")
	f.StringVar(&o.batch, "batch", "", "name of the import (default: a hash of content and mapping)")
	f.StringVar(&o.source, "source", "", "name of the file in messages and results (default: as given)")
	f.StringVar(&o.deadline, "deadline", "", "RFC 3339 time after which the orders are not sent any more")
	f.StringVar(&o.notBefore, "not-before", "", "RFC 3339 time before which the orders are not sent; a column _not_before has a row's own")
	f.BoolVar(&o.allowPast, "allow-past", false, "take a --not-before or a row's _not_before that is over: such orders are sent at once")
	f.StringVar(&o.lane, "lane", order.BulkLane, "lane of the waiting room; lanes take turns by their weights")
	f.BoolVar(&o.direct, "direct", false, "leave out the waiting room: orders that come later wait behind all of these")
	f.Float64Var(&o.rate, "rate", 0, "orders enqueued per second at most (default: no limit)")
	f.Int64Var(&o.maxStdin, "max-stdin", defaultMaxStdin, "MiB of standard input or of a pipe that are kept at most")
	f.IntVar(&o.canary, "canary", 0, "enqueue this many orders first, and the rest once all of them are accepted")
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
func (o *importOptions) settings(files []string, environ map[string]string) (broker.Config, importer.Options, error) {
	cfg, out, err := o.common(environ)
	errs := []error{err}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case o.batch == "":
	case len(files) > 1:
		bad("--batch: give it with a single file; each file is an import of its own")
	default:
		if err := importer.CheckBatch(o.batch); err != nil {
			bad("--batch: %w", err)
		}
	}
	if len(files) > 1 && o.source != "" {
		bad("--source: give it with a single file")
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
	if o.canary < 0 {
		bad("--canary: %d is not a number of orders", o.canary)
	}
	if o.maxStdin < 1 {
		bad("--max-stdin: %d is not a number of MiB", o.maxStdin)
	}
	errs = append(errs, checkDeadline(out))
	return cfg, out, errors.Join(errs...)
}

// common reads the environment, and the flags that an import by another program has, too
// (FolderFlags).
func (o *importOptions) common(environ map[string]string) (cfg broker.Config, out importer.Options, err error) {
	out, err = o.reading()
	err = errors.Join(cli.ReadEnv(&cfg, environ), cfg.Queue.Validate(), err)
	schema, wrong := cfg.Schema.Load(zerolog.Nop())
	out.Schema = schema
	return cfg, out, errors.Join(err, wrong)
}

// reading returns the options for reading and enqueueing files.
func (o *importOptions) reading() (importer.Options, error) {
	out := importer.Options{Format: importer.Format(o.format), Encoding: o.encoding, Sheet: o.sheet, Batch: o.batch,
		SkipInvalid: o.skipInvalid, MaxErrors: o.maxErrors, RetryFailed: o.retryFailed, Rate: o.rate}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.direct && (o.notBefore != "" || o.lane != order.BulkLane) {
		bad("--direct: leaves out the waiting room, in which --lane and --not-before count")
	}
	if err := order.CheckRate(o.rate); err != nil {
		bad("--rate: %w", err)
	}
	if o.maxErrors < 1 {
		bad("--max-errors: is below 1")
	}
	var err error
	now := o.now
	if now.IsZero() {
		now = time.Now()
	}
	if o.deadline != "" {
		if out.Deadline, err = time.Parse(time.RFC3339, o.deadline); err != nil {
			bad("--deadline: %q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", o.deadline)
		}
	}
	if !o.direct {
		out.Lane = o.lane
	}
	if err = order.CheckLane(o.lane); err != nil {
		bad("--lane: %w", err)
	}
	if err := o.readNotBefore(&out, now); err != nil {
		bad("--not-before: %w", err)
	}
	if !o.allowPast {
		out.Past = now
	}
	if o.delimiter != "" {
		if out.Delimiter, err = importer.ParseDelimiter(o.delimiter); err != nil {
			bad("--delimiter: %w", err)
		}
	}
	if !slices.Contains(importer.Formats(), out.Format) {
		bad("--format: %q is none of csv, ndjson, xlsx, auto", o.format)
	}
	if !slices.Contains(importer.Encodings(), o.encoding) {
		bad("--encoding: %q is none of %s", o.encoding, strings.Join(importer.Encodings(), ", "))
	}
	if out.Mapping, err = o.mapping(); err != nil {
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// checkDeadline refuses a deadline that no order can meet.
func checkDeadline(o importer.Options) error {
	if missed := order.MissedDeadline(o.Deadline, o.NotBefore, time.Now()); missed != "" {
		return fmt.Errorf("--deadline: %s; give a later time, or leave it out", missed)
	}
	return nil
}

// readNotBefore reads --not-before. In a folder it may be a time of day: a date would be over
// for the files that come later.
func (o *importOptions) readNotBefore(out *importer.Options, now time.Time) (err error) {
	if o.notBefore == "" {
		return nil
	}
	instead := "leave it out if the orders are to be sent at once, or say --allow-past"
	if o.daily {
		at, daily, err := nextTime(o.notBefore, now)
		if out.NotBefore = at; daily {
			return err
		}
		instead = "write a time of day, such as 08:00 Europe/Berlin, or say --allow-past"
	}
	if out.NotBefore, err = order.ParseNotBefore(o.notBefore, now); err == nil && order.LongPast(out.NotBefore, now) && !o.allowPast {
		err = fmt.Errorf("%s was %s ago; %s", o.notBefore, now.Sub(out.NotBefore).Round(time.Second), instead)
	}
	return err
}

// mapping merges the mapping file and the flags.
func (o *importOptions) mapping() (importer.Mapping, error) {
	file := o.base
	if o.mappingFile != "" {
		r, err := os.Open(o.mappingFile)
		if err != nil {
			return file, fmt.Errorf("--mapping: %w", err)
		}
		defer func() { _ = r.Close() }()
		if file, err = importer.ReadMapping(o.mappingFile, r); err != nil {
			return file, fmt.Errorf("--mapping: %w", err)
		}
	}
	over, given := importer.Given{Types: o.types, Renames: o.renames, Constants: o.constants, Accepted: o.accepted, Empty: o.empty, Template: o.template}.
		Mapping(func(option string) string { return "--" + option })
	out := file.Merge(over)
	return out, errors.Join(given, out.Validate())
}
