package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/demo"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/order"
	"orderpost/internal/testing/patient"
)

var update = flag.Bool("update", false, "write the generated tables of the documents anew")

const readmePath, settingsPath = "../../../README.md", "../../../docs/configuration.md"

// TestTables: the tables say what the code says. `go test ./internal/testing/e2e -run
// TestTables -update` writes them.
func TestTables(t *testing.T) {
	for _, table := range []struct{ path, name, want string }{
		{settingsPath, "settings", settingsTable(pool.Config{})},
		{readmePath, "outcomes", outcomesTable()},
	} {
		path, name, want := table.path, table.name, table.want
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
		before, rest, found := strings.Cut(string(text), begin)
		require.True(t, found, "%s has no %s table", path, name)
		have, after, found := strings.Cut(rest, end)
		require.True(t, found, "the %s table of %s has no end", name, path)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o600))
			continue
		}
		require.Equal(t, want, have, "the %s table of %s lies; run: go test ./internal/testing/e2e -run TestTables -update", name, path)
	}
}

func settingsTable(cfg any) string {
	var b strings.Builder
	b.WriteString("| variable | default | what it is |\n|---|---|---|\n")
	for _, s := range cli.Settings(cfg) {
		value := s.Default
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, value, strings.ReplaceAll(s.Description, "|", "\\|"))
	}
	return b.String()
}

func outcomesTable() string {
	var b strings.Builder
	b.WriteString("| outcome | meaning | created at the API? | dead letter |\n|---|---|---|---|\n")
	for _, o := range order.Outcomes() {
		created, letter := o.Created(), "no"
		if created == "unknown" {
			created = "nobody knows"
		}
		if o.NeedsLetter() {
			letter = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o, o.Meaning(), created, letter)
	}
	return b.String()
}

// TestReadmeCommands: the commands that the README promises exist, and every
// setting that it mentions is one.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile(readmePath)
	require.NoError(t, err)
	for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \n`|()", r) }) {
		if dir, isCmd := strings.CutPrefix(word, "./cmd/"); isCmd {
			_, err := os.Stat(filepath.Join("../../../cmd", dir, "main.go"))
			require.NoError(t, err, "README names %s", word)
		}
	}
	known := make(map[string]bool)
	for _, s := range cli.Settings(pool.Config{}) {
		known[s.Name] = true
	}
	for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
		if strings.HasPrefix(word, "ORDERPOST_") {
			require.True(t, known[word], "README names the setting %s, which no program reads", word)
		}
	}
}

// TestDemo is the README's first command.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out, errOut patient.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	code := demo.Run(ctx, []string{"../../../examples/orders.csv", "--json"}, map[string]string{}, nil, &out, &errOut)
	require.Equal(t, cli.ExitDone, code, errOut.String())
	var s struct {
		Balanced    bool           `json:"balanced"`
		Intents     int            `json:"intents"`
		Outcomes    map[string]int `json:"outcomes"`
		CreatedOnce int            `json:"created_once"`
		Twice       int            `json:"created_twice"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &s))
	require.True(t, s.Balanced, out.String())
	require.Equal(t, 2000, s.Intents)
	require.GreaterOrEqual(t, s.CreatedOnce, s.Outcomes["accepted"])
	require.Zero(t, s.Twice)
	require.Positive(t, s.Outcomes["rejected"])
}

// TestReadmeIsAFrontDoor: a page that grows without bound is read by nobody.
func TestReadmeIsAFrontDoor(t *testing.T) {
	text, err := os.ReadFile(readmePath)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), 11<<10, "bytes")
}
