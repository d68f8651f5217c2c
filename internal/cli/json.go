package cli

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The annotations of commands about their JSON output.
const (
	// SchemasOf names the schemas that a command's --json follows, separated by spaces.
	SchemasOf = "json-schemas"
	// WhyNoJSON says why a command has no --json.
	WhyNoJSON = "no-json"
)

// JSONFlag adds the flag --json to a command. schemas names the JSON Schemas in
// docs/schema of its output.
func JSONFlag(cmd *cobra.Command, to *bool, schemas ...string) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON instead of text (schema "+strings.Join(schemas, ", ")+")")
	annotate(cmd, SchemasOf, strings.Join(schemas, " "))
}

// NoJSON notes why a command has no flag --json.
func NoJSON(cmd *cobra.Command, why string) { annotate(cmd, WhyNoJSON, why) }

func annotate(cmd *cobra.Command, name, value string) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[name] = value
}

// PrintJSON prints one object on one line.
func PrintJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// PrintReport prints one object over several indented lines, for people.
func PrintReport(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
