package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"orderpost/docs/schema"
	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/notify"
	"orderpost/internal/queue"
)

// everyCommand lists orderpost's commands that do something, by their paths.
func everyCommand(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	all := make(map[string]*cobra.Command)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() {
			all[cmd.CommandPath()] = cmd
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(orderpost.NewCommand(map[string]string{}, nil, io.Discard, io.Discard))
	require.Greater(t, len(all), 25)
	return all
}

// TestEveryCommandHasJSON: or a reason why not. Its schemas are there.
func TestEveryCommandHasJSON(t *testing.T) {
	for path, cmd := range everyCommand(t) {
		schemas, why := strings.Fields(cmd.Annotations[cli.SchemasOf]), cmd.Annotations[cli.WhyNoJSON]
		require.NotEqual(t, len(schemas) > 0, why != "", "%s: give it --json (cli.JSONFlag), or say why not (cli.NoJSON)", path)
		require.Equal(t, len(schemas) > 0, cmd.Flags().Lookup("json") != nil, path)
		for _, name := range schemas {
			require.Contains(t, schema.Names(), name, path)
		}
	}
}

// schemas compiles docs/schema.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range schema.Names() {
		text, err := schema.Text(name)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, c.AddResource("urn:orderpost:"+name, doc))
	}
	out := make(map[string]*jsonschema.Schema)
	for _, name := range schema.Names() {
		s, err := c.Compile("urn:orderpost:" + name)
		require.NoError(t, err)
		out[name] = s
	}
	return out
}

// undescribed walks through a value and its schema, and names the fields that the
// schema does not describe.
func undescribed(path string, value any, s *jsonschema.Schema) (out []string) {
	var beside map[string]*jsonschema.Schema // the reference
	for s.Ref != nil {
		beside, s = s.Properties, s.Ref
	}
	switch v := value.(type) {
	case map[string]any:
		for _, any := range s.AnyOf {
			if named := undescribed(path, v, any); len(s.Properties) == 0 && any.Ref != nil {
				return named
			}
		}
		for name, inside := range v {
			field, known := s.Properties[name]
			if !known {
				field, known = beside[name]
			}
			switch {
			case known:
				out = append(out, undescribed(path+"."+name, inside, field)...)
			case s.PropertyNames == nil && len(s.Properties) > 0:
				out = append(out, path+"."+name)
			}
		}
	case []any:
		items := s.Items2020
		if items == nil {
			items, _ = s.Items.(*jsonschema.Schema)
		}
		for _, inside := range v {
			if items != nil {
				out = append(out, undescribed(path+"[]", inside, items)...)
			}
		}
	}
	return out
}

// TestJSON runs every command that has --json, and holds what it prints against
// the schema that its help names.
func TestJSON(t *testing.T) {
	p := newPlace(t, 1, nil)
	valid := schemas(t)
	p.settings["ORDERPOST_OPS_ADDR"] = strings.TrimPrefix(p.ops, "http://")
	require.NoError(t, os.WriteFile("more.csv", []byte("order_no,timeout,amount\nJ-1,60,1\n"), 0o600))
	require.NoError(t, os.WriteFile("held.csv", []byte("order_no,timeout\nH-1,60\n"), 0o600))
	require.NoError(t, os.WriteFile("order.json", []byte(`{"order_no":"A","timeout":30,"note":null}`), 0o600))
	parkWebhook(t, p.settings)
	seen := make(map[string]bool)
	for _, c := range []struct {
		args string
		code int
		want string // the schemas of the lines; the last one is that of all further lines
	}{
		{"version", cli.ExitDone, "version"},
		{"worker check", cli.ExitDone, "check"},
		{"worker check --broker", cli.ExitDone, "check"},
		{"worker check --answer answer.txt", cli.ExitDone, "verdict"},
		{"worker health", cli.ExitDone, "health"},
		{"worker adopt --yes", cli.ExitDone, "adopt"},
		{"worker repair --yes", cli.ExitDone, "repair"},
		{"hold --for 1m --reason why", cli.ExitDone, "hold"},
		{"limit 50/s", cli.ExitDone, "limit"},
		{"fleet", cli.ExitDone, "fleet"},
		{"enqueue held.csv --batch held --direct", cli.ExitDone, "import"},
		{"enqueue status held", cli.ExitPartial, "status"},
		{"order H-1", cli.ExitDone, "order"},
		{"pending", cli.ExitDone, "pending"},
		{"limit default", cli.ExitDone, "limit"},
		{"lane night 2", cli.ExitDone, "lane"},
		{"fleet", cli.ExitDone, "fleet"},
		{"resume", cli.ExitDone, "resume"},
		{"fleet", cli.ExitDone, "fleet"},
		{"enqueue orders.csv --batch json", cli.ExitDone, "import"},
		{"enqueue more.csv --batch more --wait", cli.ExitDone, "import outcomes"},
		{"enqueue more.csv --dry-run", cli.ExitDone, "import"},
		{"enqueue orders.xlsx --dry-run", cli.ExitDone, "import"},
		{"enqueue pause more", cli.ExitDone, "pause"},
		{"enqueue status more", cli.ExitDone, "status"},
		{"enqueue resume more", cli.ExitDone, "pause"},
		{"enqueue watch json", cli.ExitDone, "status"},
		{"enqueue status", cli.ExitDone, "remembered"},
		{"enqueue status json", cli.ExitDone, "status"},
		{"enqueue results json -o out.csv", cli.ExitDone, "outcomes"},
		{"enqueue cancel json --dry-run", cli.ExitPartial, "cancel"},
		{"enqueue cancel json", cli.ExitPartial, "cancel"},
		{"order D-1", cli.ExitDone, "order"},
		{"order nobody", cli.ExitPartial, "order"},
		{"deadletter show REFUSED-1", cli.ExitDone, "order"},
		{"sign order.json --signature 00", cli.ExitDone, "signature"},
		{"audit", cli.ExitDone, "audit"},
		{"reconcile more.csv --as-of 0s --margin 0s", cli.ExitPartial, "reconcile"},
		{"deadletter list", cli.ExitDone, "dead-letter"},
		{"deadletter replay --all --dry-run", cli.ExitPartial, "replay"},
		{"deadletter lookup --all --dry-run", cli.ExitPartial, "lookup"},
		{"deadletter replay --order-no REFUSED-1", cli.ExitDone, "replay"},
		{"deadletter resolve --outcome unknown --rejected --note n --dry-run", cli.ExitDone, "resolve"},
		{"deadletter resolve DOUBT-0 --rejected --note n", cli.ExitDone, "result"},
		{"deadletter drop --order-no REFUSED-2 --dry-run", cli.ExitDone, "drop"},
		{"deadletter drop --order-no REFUSED-2 --yes", cli.ExitDone, "drop"},
		{"deadletter drop --order-no REFUSED-2 --yes", cli.ExitDone, "drop"},
		{"order REFUSED-2", cli.ExitDone, "order"},
		{"erase REFUSED-2 nobody --yes", cli.ExitPartial, "erase"},
		{"backup copy", cli.ExitDone, "backup"},
		{"restore copy --missing", cli.ExitDone, "restore"},
		{"notify parked", cli.ExitDone, "notify-parked"},
		{"notify retry --all", cli.ExitDone, "notify-retry"},
		{"journal", cli.ExitDone, "journal"},
	} {
		code, out, errOut := runProgram(t, orderpost.Run, p.settings, append(strings.Fields(c.args), "--json")...)
		require.Equal(t, c.code, code, "%s: %s%s", c.args, out, errOut)
		names := strings.Fields(c.want)
		docs := documentsOf(t, out)
		require.GreaterOrEqual(t, len(docs), len(names), "%s: %s", c.args, out)
		for i, doc := range docs {
			name := names[min(i, len(names)-1)]
			require.NoError(t, valid[name].Validate(doc), "%s: %s", c.args, out)
			require.Empty(t, undescribed("", doc, valid[name]), "%s: docs/schema/%s.json does not describe them", c.args, name)
			seen[name] = true
		}
	}
	other := maps.Clone(p.settings)
	other["ORDERPOST_ACCOUNT_LABEL"] = "another"
	code, out, errOut := runProgram(t, orderpost.Run, other, "worker", "adopt", "--yes", "--by", "anna", "--json")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.NoError(t, valid["adopt"].Validate(documentsOf(t, out)[0]), out)
	require.Contains(t, out, `"changed":true`)
	delete(other, "ORDERPOST_API_KEY")
	code, out, _ = runProgram(t, orderpost.Run, other, "worker", "check", "--json")
	require.Equal(t, cli.ExitUsage, code)
	require.NoError(t, valid["check"].Validate(documentsOf(t, out)[0]), out)

	for path, cmd := range everyCommand(t) {
		for _, name := range strings.Fields(cmd.Annotations[cli.SchemasOf]) {
			require.True(t, seen[name], "%s: no run of it here prints %s", path, name)
		}
	}
}

// parkWebhook puts an event aside that the receiver refused for good.
func parkWebhook(t *testing.T, settings map[string]string) {
	t.Helper()
	cfg := queue.DefaultConfig()
	require.NoError(t, pool.JoinEmbedded(&cfg, settings["ORDERPOST_DATA_DIR"]))
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	defer q.Close()
	at := time.Now().UTC()
	require.NoError(t, q.Bucket().Put(t.Context(), "notify.aside.7", notify.Aside{OrderNo: "REFUSED-1", Type: notify.TypeSettled, ID: "evt_1", Outcome: "rejected",
		Position: 4, Parked: true, Tries: 3, FirstAt: at, LastAt: at, Status: 410, StatusSince: at, Answer: "gone", Token: "REFUSED-1"}))
}

// documentsOf reads what a command printed: JSON values, one after another.
func documentsOf(t *testing.T, out string) (docs []any) {
	t.Helper()
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var text json.RawMessage
		require.NoError(t, dec.Decode(&text), out)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text)) // numbers as the validator wants them
		require.NoError(t, err)
		docs = append(docs, doc)
	}
	require.NotEmpty(t, docs)
	return docs
}

// TestCompletion: the values come from the broker; without one there are none,
// and nothing is said.
func TestCompletion(t *testing.T) {
	p := newPlace(t, 2, nil)
	code, _, errOut := importFile(t, p.settings, writeFile(t, "order_no,timeout\nC-1,60\n"), "--batch", "march")
	require.Equal(t, cli.ExitDone, code, errOut)
	once := func(settings map[string]string, args ...string) []string {
		code, out, errOut := runProgram(t, orderpost.Run, settings, append([]string{cobra.ShellCompRequestCmd}, args...)...)
		require.Equal(t, cli.ExitDone, code, errOut)
		require.Equal(t, "Completion ended with directive: ShellCompDirectiveNoFileComp\n", errOut)
		var names []string
		for line := range strings.Lines(out) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(name, ":") {
				names = append(names, name)
			}
		}
		return names
	}
	offered := func(settings map[string]string, args ...string) (names []string) {
		require.Eventually(t, func() bool { // a completion gives up after a second and a half
			names = once(settings, args...)
			return len(names) > 0
		}, patience, pause, args)
		return names
	}
	letters := []string{"DOUBT-0", "DOUBT-1"}
	for _, args := range [][]string{{"order", "DOUBT"}, {"deadletter", "show", "DOUBT"}, {"deadletter", "resolve", "DOUBT"},
		{"enqueue", "order", "DOUBT"}, {"deadletter", "replay", "--order-no", "DOUBT"}} {
		require.Equal(t, letters, slices.Sorted(slices.Values(offered(p.settings, args...))), args)
	}
	require.Equal(t, []string{"refused by status 422"}, offered(p.settings, "deadletter", "list", "--reason", "ref"))
	for _, args := range [][]string{{"enqueue", "watch", "m"}, {"enqueue", "status", "m"}, {"enqueue", "results", "m"}, {"enqueue", "cancel", "m"},
		{"deadletter", "list", "--batch", "m"}} {
		require.Equal(t, []string{"march"}, offered(p.settings, args...), args)
	}
	require.Empty(t, once(p.settings, "enqueue", "watch", "march", ""), "there is one argument")
	require.Contains(t, offered(p.settings, "schema", "r"), "rules")
	require.Contains(t, offered(p.settings, "deadletter", "list", "--outcome", "u"), "unknown")
	nobody := map[string]string{"ORDERPOST_DATA_DIR": t.TempDir(), "ORDERPOST_TYPO": "1"}
	require.Empty(t, once(nobody, "order", "D"))
	require.Empty(t, once(map[string]string{"ORDERPOST_NATS_URL": "nats://127.0.0.1:1"}, "enqueue", "status", ""))
}
