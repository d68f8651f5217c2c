package orderpost

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/docs/schema"
	"orderpost/internal/program"
)

// newSchemaCommand prints the JSON Schemas.
func newSchemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print a JSON Schema: of a file that you write, or of what --json prints",
		Long: "schema prints the JSON Schema of a rules file or a mapping file (draft 7, which editors read), or of a\n" +
			"message in the streams or the output of a command's --json (draft 2020-12); without NAME it lists them.\n" +
			"The help of a command's --json names its schema. An editor that knows JSON Schema checks and completes a\n" +
			"YAML file whose first line names one:\n\n" +
			"  # yaml-language-server: $schema=rules.schema.json",
		Example:   "  orderpost schema\n  orderpost schema rules > rules.schema.json\n  orderpost schema fleet",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: schema.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(args) == 0 {
				for _, name := range schema.Names() {
					_, _ = fmt.Fprintf(out, "%-12s %s\n", name, program.Spell(cmd.Context(), schema.Title(name)))
				}
				return nil
			}
			text, err := schema.Text(args[0])
			if err != nil {
				return &program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("there is no schema %q; there are %s", args[0], strings.Join(schema.Names(), ", "))}
			}
			_, err = fmt.Fprint(out, text)
			return err
		},
	}
	program.NoJSON(cmd, "a schema is JSON; the list is for people")
	return cmd
}
