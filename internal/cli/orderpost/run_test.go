package orderpost

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		os.Exit(Run(context.Background(), []string{"gateway"}, cli.Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
	}
	patient.Main(m)
}

var update = flag.Bool("update", false, "write the golden files anew")

func said(t *testing.T, run cli.RunFunc, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	environ := map[string]string{"ORDERPOST_DATA_DIR": t.TempDir(), "ORDERPOST_NATS_CONNECT_TIMEOUT": "10ms"}
	code = run(t.Context(), args, environ, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestHelp is what a user sees first.
func TestHelp(t *testing.T) {
	_, got, _ := said(t, Run, "--help")
	if *update {
		require.NoError(t, os.WriteFile("testdata/help.golden", []byte(got), 0o600))
	}
	want, err := os.ReadFile("testdata/help.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./internal/cli/orderpost -run TestHelp -update writes it anew")
}

// TestLinks: by the name of a program it is that program.
func TestLinks(t *testing.T) {
	for arg0, name := range map[string]string{"worker": "worker", "/usr/local/bin/enqueue": "enqueue", "deadletter.exe": "deadletter",
		"orderpost": "orderpost", "/opt/orderpost-v1": "orderpost", "": "orderpost"} {
		_, out, _ := said(t, named(arg0), "--version")
		require.True(t, strings.HasPrefix(out, name+" version "), "%s: %s", arg0, out)
	}
}

// TestCommandsAsTheyWereStarted: whoever reads the name of a command can start
// it so.
func TestCommandsAsTheyWereStarted(t *testing.T) {
	code, _, errOut := said(t, Run, "audit")
	require.Equal(t, cli.ExitUnreachable, code)
	require.Contains(t, errOut, "start one there (orderpost worker), or")
	require.True(t, strings.HasSuffix(errOut, "\n  orderpost audit\n"), errOut)
	_, _, errOut = said(t, named("deadletter"), "audit")
	require.Contains(t, errOut, "start one there (orderpost worker), or")
	require.True(t, strings.HasSuffix(errOut, "\n  deadletter audit\n"), errOut)
	for _, args := range [][]string{{"worker", "hold", "--for", "-1s"}, {"hold", "--for", "-1s"}} { // the old place, and the new one
		code, _, errOut = said(t, Run, args...)
		require.Equal(t, cli.ExitUsage, code)
		require.Equal(t, "orderpost: invalid argument \"-1s\" for \"--for\" flag: -1s is below 0 (see orderpost "+strings.Join(args[:len(args)-2], " ")+" --help)\n", errOut)
	}
	code, _, errOut = said(t, Run, "worker", "hold", "--fro", "1s")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "(see orderpost worker hold --help)")
}

// TestCompletionOfFiles: a shell offers files where a file is meant, and nowhere else.
func TestCompletionOfFiles(t *testing.T) {
	files := map[string]bool{"orderpost enqueue": true, "orderpost enqueue --mapping": true, "orderpost enqueue --results": true,
		"orderpost enqueue results --output": true, "orderpost enqueue results --file": true, "orderpost enqueue sign": true, "orderpost sign": true,
		"orderpost worker check --answer": true, "orderpost watch": true, "orderpost certify --order": true, "orderpost certify --rules": true, "orderpost certify --settings": true, "orderpost reconcile": true, "orderpost reconcile --results": true, "orderpost schema --from": true, "orderpost schema --mapping": true}
	offered := func(args ...string) bool {
		_, out, _ := said(t, Run, append([]string{cobra.ShellCompRequestCmd}, args...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		directive, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
		require.NoError(t, err, out)
		return cobra.ShellCompDirective(directive)&cobra.ShellCompDirectiveNoFileComp == 0
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		require.Equal(t, files[cmd.CommandPath()], offered(append(path, "")...), cmd.CommandPath())
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				require.Equal(t, files[cmd.CommandPath()+" --"+f.Name], offered(append(path, "--"+f.Name, "")...), cmd.CommandPath()+" --"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(NewCommand(map[string]string{}, nil, io.Discard, io.Discard))
}

// TestUnknownCommand names what may be meant.
func TestUnknownCommand(t *testing.T) {
	for args, want := range map[string]string{
		"watch march":       `orderpost: the folder march is not there; make it, or name another one (to follow an import: orderpost enqueue watch BATCH)`,
		"workr":             `orderpost: unknown command "workr"; did you mean orderpost worker? (see orderpost --help)`,
		"sandbox":           `orderpost: unknown command "sandbox" (see orderpost --help)`,
		"":                  "orderpost: no command given (see orderpost --help)",
		"deadletter lsit":   `orderpost: unknown command "lsit"; did you mean orderpost deadletter list? (see orderpost deadletter --help)`,
		"deadletter orde A": `orderpost: unknown command "orde"; did you mean orderpost order? (see orderpost deadletter --help)`,
		"worker fleett":     `orderpost: unknown command "fleett"; did you mean orderpost fleet? (see orderpost worker --help)`,
		"enqueue statsu":    `orderpost: open statsu: no such file or directory; did you mean orderpost enqueue status?`,
	} {
		code, _, errOut := said(t, Run, strings.Fields(args)...)
		require.Equal(t, cli.ExitUsage, code)
		require.Equal(t, want+"\n", errOut)
	}
}

func TestSchema(t *testing.T) {
	code, out, _ := said(t, Run, "schema")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "\nrules         Rules file (ORDERPOST_RULES)")
	require.Contains(t, out, "\nfleet         orderpost fleet --json: ")
	code, out, _ = said(t, Run, "schema", "rules")
	require.Equal(t, cli.ExitDone, code)
	file, err := os.ReadFile("../../../docs/schema/rules.json")
	require.NoError(t, err)
	require.Equal(t, string(file), out)
	code, _, errOut := said(t, Run, "schema", "../schema/rules")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "there are adopt, audit, ")
}

// TestCompletionScripts: for the shells that people use.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, errOut := said(t, Run, "completion", shell)
		require.Equal(t, cli.ExitDone, code, errOut)
		require.Contains(t, out, "orderpost")
		require.Empty(t, errOut)
	}
}

// TestHelpPrintsDocuments: on a host with the package alone, the program is the runbook.
func TestHelpPrintsDocuments(t *testing.T) {
	code, out, _ := said(t, Run, "help", "runbook", "KeyDenied")
	require.Equal(t, cli.ExitDone, code)
	require.True(t, strings.HasPrefix(out, "## OrderpostKeyDenied\n"), out)
	_, out, _ = said(t, Run, "help", "enqueue", "status")
	require.Contains(t, out, "orderpost enqueue status [BATCH]")
	_, out, _ = said(t, Run, "help", "console")
	require.Contains(t, out, "orderpost console [")
	_, out, _ = said(t, Run, "help", "console.md")
	require.True(t, strings.HasPrefix(out, "# "), out)
	_, out, _ = said(t, Run, "help")
	require.Contains(t, out, "Use \"orderpost [command] --help\"")
	code, _, errOut := said(t, Run, "help", "runbok")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, `there is no command and no document "runbok"; the documents are architecture, `)
	code, _, errOut = said(t, Run, "help", "runbook", "NoSuchAlert")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, `runbook has no section "NoSuchAlert"; its sections are: `)
}
