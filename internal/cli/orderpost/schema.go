package orderpost

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/docs/schema"
	"orderpost/internal/cli"
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
		ValidArgs: schema.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(d.files) > 0 {
				if len(args) != 1 || args[0] != "order" {
					return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--from: only the schema of an order is made from files: orderpost schema order --from FILE")}
				}
				return d.run(cmd.Context(), environ, out, stderr)
			}
			if len(args) == 0 {
				for _, name := range schema.Names() {
					_, _ = fmt.Fprintf(out, "%-13s %s\n", name, schema.Title(name))
				}
				return nil
			}
			text, err := schema.Text(args[0])
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("there is no schema %q; there are %s", args[0], strings.Join(schema.Names(), ", "))}
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
