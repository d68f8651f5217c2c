package enqueue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
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
	before := map[string]func(){ // options of enqueue alone, by the ones that they stand before
		"skip-invalid": func() {
			f.StringVar(&o.mapping, "mapping", "", "YAML file with "+strings.Join(importer.MappingKeys(), ", ")+", or the name of an earlier import; flags go first")
			f.BoolVar(&o.dryRun, "dry-run", false, "check the files and show the first orders; enqueue nothing")
		},
		"deadline": func() {
			f.StringVar(&o.source, "source", "", "name of the file in messages and results (default: as given)")
		},
		"canary": func() {
			f.Int64Var(&o.maxStdin, "max-stdin", defaultMaxStdin, "MiB of standard input or of a pipe that are kept at most")
		},
	}
	for _, option := range importer.AllOptions() {
		if register := before[option.Name]; register != nil {
			register()
		}
		switch without := option.Default.(type) {
		case bool:
			f.Bool(option.Name, without, option.Help)
		case int:
			f.Int(option.Name, without, option.Help)
		case float64:
			f.Float64(option.Name, without, option.Help)
		case []string:
			f.StringArray(option.Name, without, option.Help)
		case string:
			f.String(option.Name, without, option.Help)
		}
		if option.Filled { // without its time an order would be sent at once
			cli.NotEmpty(cmd, option.Name)
		}
		if option.Values != nil {
			_ = cmd.RegisterFlagCompletionFunc(option.Name, cobra.FixedCompletions(option.Values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	f.BoolVar(&o.wait, "wait", false, "wait until every order has its outcome")
	f.StringVar(&o.results, "results", "", "write every row with its outcome to this file, as a workbook if it ends in .xlsx, else as CSV; - is standard output; implies --wait")
	cli.NotEmpty(cmd, "mapping", "results")
	o.person.Register(cmd, environ)
	cli.JSONFlag(cmd, &o.json, "import", "outcomes")
	f.BoolVar(&o.quiet, "quiet", false, "print nothing but errors")
	_ = cmd.MarkFlagFilename("mapping", "yaml", "yml") // the flag exists
	cli.CompleteFiles(cmd)
	cli.CompleteFiles(cmd, "results")
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
		if importer.OptionOf(f.Name) == nil {
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
