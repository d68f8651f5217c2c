package orderpost

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
)

// newVersionCommand prints what --version prints, and what the program was built with.
func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what the program was built with",
		Long: "version prints the version of this program with its commit, the Go release that built it, and the platform\n" +
			"that it was built for. `orderpost fleet` shows the versions of the workers that run.",
		Example: "  orderpost version\n  orderpost version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{cli.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "orderpost %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
	cli.JSONFlag(cmd, &asJSON, "version")
	return cmd
}
