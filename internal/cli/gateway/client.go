package gateway

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/gateway"
)

// newClientCommand returns the command that makes an entry of the file of clients.
func newClientCommand(stderr io.Writer) *cobra.Command {
	var scopes, certificates []string
	cmd := &cobra.Command{
		Use:   "client NAME",
		Short: "Make a token, and print the client's entry of the file of clients",
		Long: "client makes a token, prints it on stderr, and prints an entry of the file of clients on stdout, which holds\n" +
			"only the token's hash. The file begins with the line \"clients:\". Nobody can get the token back from it.\n\n" +
			"Scopes: submit brings orders; read sees the outcomes of the client's own orders; read:all sees all; cancel\n" +
			"withdraws those that it sees. To replace a token, make a new entry and copy its hash beside the old one.",
		Example: "  echo clients: > clients.yaml\n  orderpost gateway client shop --scopes submit,read,cancel >> clients.yaml",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			entry, token, err := gateway.NewEntry(args[0], asScopes(scopes), certificates...)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			text, err := entry.YAML()
			if err != nil {
				return err
			}
			if _, err = fmt.Fprint(cmd.OutOrStdout(), text); err == nil && token != "" {
				_, err = fmt.Fprintf(stderr, "The token of %s, which is shown only now:\n%s\n", entry.Name, token)
			}
			return err
		},
	}
	cli.NoJSON(cmd, "it prints an entry of a file")
	cmd.Flags().StringSliceVar(&scopes, "scopes", []string{"submit", "read"}, "what the client may do: submit, read, read:all, cancel")
	cmd.Flags().StringArrayVar(&certificates, "certificate", nil, "the client has a certificate with this name instead of a token: subject:CN=…, dns:HOST or uri:URI (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("scopes", func(_ *cobra.Command, _ []string, typed string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		begun := typed[:strings.LastIndexByte(typed, ',')+1]
		for _, s := range gateway.Scopes() {
			if !slices.Contains(strings.Split(begun, ","), string(s)) {
				found = append(found, begun+string(s))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func asScopes(words []string) []gateway.Scope {
	scopes := make([]gateway.Scope, len(words))
	for i, w := range words {
		scopes[i] = gateway.Scope(strings.TrimSpace(w))
	}
	return scopes
}
