package e2e

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/queue"
)

// acts are the commands that change something, by the kind of act that each
// writes to the journal.
var acts = map[string]journal.Kind{
	"orderpost enqueue": journal.Import, "orderpost enqueue cancel": journal.Cancel,
	"orderpost enqueue pause": journal.Pause, "orderpost enqueue continue": journal.GoOn, "orderpost lane": journal.Lane, "orderpost worker lane": journal.Lane,
	"orderpost deadletter replay": journal.Replay, "orderpost deadletter lookup": journal.Lookup, "orderpost deadletter resolve": journal.Resolve, "orderpost deadletter drop": journal.Drop, "orderpost erase": journal.Erase, "orderpost reconcile": journal.Resolve,
	"orderpost hold": journal.Hold, "orderpost resume": journal.Resume, "orderpost limit": journal.Limit,
	"orderpost worker hold": journal.Hold, "orderpost worker resume": journal.Resume, "orderpost worker limit": journal.Limit,
	"orderpost worker adopt": journal.Adopt, "orderpost worker repair": journal.Repair, "orderpost notify retry": journal.Tell,
}

// looks are the commands that change nothing, and the programs that run on.
var looks = []string{"orderpost", "orderpost audit", "orderpost journal", "orderpost order", "orderpost pending", "orderpost sign", "orderpost fleet", "orderpost schema", "orderpost version", "orderpost console", "orderpost console user", "orderpost certify",
	"orderpost enqueue watch", "orderpost enqueue status", "orderpost enqueue results", "orderpost enqueue order", "orderpost enqueue sign",
	"orderpost deadletter", "orderpost deadletter list", "orderpost deadletter show", "orderpost deadletter export", "orderpost deadletter audit", "orderpost deadletter journal",
	"orderpost worker", "orderpost worker fleet", "orderpost worker check", "orderpost worker health",
	"orderpost notify", "orderpost notify parked", "orderpost notify secret", "orderpost gateway", "orderpost gateway client",
	"orderpost watch",                       // its imports are in the journal: TestADay of package watch
	"orderpost backup", "orderpost restore"} // the journal has the hold of the one, if there was one, and is made by the other

// journaled reads the whole journal, newest first. On a busy machine the connection may
// break for a moment.
func journaled(t *testing.T, q *queue.Queue) (items []journal.Item) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		items = nil
		bad, err := journal.All(t.Context(), q, journal.Query{}, func(i journal.Item) bool { items = append(items, i); return true })
		require.NoError(c, err)
		require.Empty(c, bad)
	}, patience, 20*time.Millisecond)
	return items
}

// TestEveryActIsJournaled runs every command that changes something. A command
// that is in neither list fails the test: somebody must decide.
func TestEveryActIsJournaled(t *testing.T) {
	for path := range everyCommand(t) {
		require.NotEqual(t, acts[path] != "", slices.Contains(looks, path), "%s: does it change something? Then use broker.Person.Act, and name it in acts", path)
	}
	p := newPlace(t, 1, nil)
	p.settings["USER"] = "anna"
	q := openStreams(t, p.settings)
	before := journaled(t, q)
	require.Len(t, before, 2, "the place's own imports")
	js, err := jetstream.New(bare(t, p.settings))
	require.NoError(t, err)
	other := maps.Clone(p.settings)
	other["ORDERPOST_ACCOUNT_LABEL"] = "another"
	done := make(map[journal.Kind]bool)
	for _, c := range []struct {
		args string
		code int
		kind journal.Kind
		end  journal.End
		want string // in the text of journal
	}{
		{"hold --for 1h --reason stocktaking", cli.ExitDone, journal.Hold, journal.Done, "note: stocktaking"},
		{"limit 50/s --note slow", cli.ExitDone, journal.Limit, journal.Done, "limit: 50/s"},
		{"limit default", cli.ExitDone, journal.Limit, journal.Done, "limit: default"},
		{"enqueue orders.csv --batch acts --note monday", cli.ExitDone, journal.Import, journal.Done, "done: 2 stored"},
		{"enqueue pause acts", cli.ExitDone, journal.Pause, journal.Done, "done"},
		{"enqueue continue acts", cli.ExitDone, journal.GoOn, journal.Done, "done"},
		{"lane night 2", cli.ExitDone, journal.Lane, journal.Done, "lane: night"},
		{"enqueue cancel acts", cli.ExitDone, journal.Cancel, journal.Done, "done: 2 cancelled"},
		{"enqueue cancel acts", cli.ExitPartial, journal.Cancel, journal.Partial, "partial (nothing is pending of acts)"},
		{"resume", cli.ExitDone, journal.Resume, journal.Done, "done"},
		{"deadletter resolve DOUBT-0 --rejected --note asked", cli.ExitDone, journal.Resolve, journal.Done, "order DOUBT-0"},
		{"deadletter resolve DOUBT-7 --rejected --note asked", cli.ExitPartial, journal.Resolve, journal.Partial, "has no result"},
		{"deadletter lookup --all", cli.ExitPartial, journal.Lookup, journal.Partial, "for: 1h0m0s"},
		{"deadletter drop --order-no REFUSED-1 --yes", cli.ExitDone, journal.Drop, journal.Done, "done: 1 dropped"},
		{"erase REFUSED-1 --yes", cli.ExitDone, journal.Erase, journal.Done, "done: 1 erased"},
		{"deadletter replay --outcome rejected --since 24h", cli.ExitDone, journal.Replay, journal.Done, "--outcome rejected --since 2"},
		{"notify retry --all --note repaired", cli.ExitDone, journal.Tell, journal.Done, "events: all"},
		{"notify retry DOUBT-0", cli.ExitPartial, journal.Tell, journal.Partial, "order DOUBT-0"},
		{"worker repair --yes", cli.ExitDone, "", "", ""},
		{"deadletter replay --all --dry-run", cli.ExitDone, "", "", ""},
		{"enqueue orders.csv --dry-run", cli.ExitDone, "", "", ""},
		{"enqueue cancel acts --dry-run", cli.ExitPartial, "", "", ""},
		{"deadletter drop --all --dry-run", cli.ExitDone, "", "", ""},
		{"worker adopt --yes --by berta", cli.ExitDone, journal.Adopt, journal.Done, "(another)"},
	} {
		if c.kind == journal.Import {
			waitUntilHeld(t, q, js) // or the orders would be posted
		}
		settings := p.settings
		if c.kind == journal.Adopt {
			settings = other
		}
		code, out, errOut := runProgram(t, orderpost.Run, settings, strings.Fields(c.args)...)
		require.Equal(t, c.code, code, "%s: %s%s", c.args, out, errOut)
		after := journaled(t, q)
		if c.kind == "" {
			require.Len(t, after, len(before), c.args)
			continue
		}
		require.Len(t, after, len(before)+1, c.args)
		item := after[0]
		require.Equal(t, c.kind, item.Kind, c.args)
		require.NotNil(t, item.Result, c.args)
		require.Equal(t, c.end, item.Result.End, c.args)
		if c.kind == journal.Adopt {
			require.Equal(t, journal.Actor{Name: "berta", Known: journal.ByFlag}, item.Actor)
		} else {
			host, _ := os.Hostname()
			require.Equal(t, journal.Actor{Name: "anna@" + host, Known: journal.ByUser}, item.Actor)
		}
		_, out, _ = runProgram(t, orderpost.Run, p.settings, "journal", "--limit", "1")
		require.Contains(t, strings.Join(strings.Fields(out), " "), c.want, c.args)
		before, done[c.kind] = after, true
	}
	_, out, _ := runProgram(t, orderpost.Run, p.settings, "order", "D-1")
	people := out[strings.Index(out, "What people did"):]
	require.Contains(t, strings.Join(strings.Fields(people), " "), "import: import acts; file: orders.csv")

	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_DEAD"))
	code, _, errOut := runProgram(t, orderpost.Run, p.settings, "worker", "repair", "--yes")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Equal(t, journal.Repair, journaled(t, q)[0].Kind)
	done[journal.Repair] = true
	for path, kind := range acts {
		require.True(t, done[kind], "no run of %s here", path)
	}
}

// TestAViewerSeesEverythingAndChangesNothing: every command as the role viewer.
func TestAViewerSeesEverythingAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	viewer := b.as("viewer", map[string]string{"ORDERPOST_BROKER_WAIT": "1s", "USER": "mallory"})
	file := writeFile(t, "order_no,timeout\nVIEW-1,30\n")
	for _, args := range []string{"fleet", "audit", "order SETTLED", "order REFUSED", "journal", "enqueue status", "deadletter list", "deadletter show REFUSED",
		"deadletter export", "deadletter replay --all --dry-run", "deadletter drop --all --dry-run"} {
		code, out, errOut := runProgram(t, orderpost.Run, viewer, strings.Fields(args)...)
		require.Contains(t, []int{cli.ExitDone, cli.ExitPartial}, code, "%s: %s%s", args, out, errOut)
		require.NotContains(t, errOut, "ermission", args)
	}
	for _, args := range []string{"enqueue " + file, "enqueue cancel BAIT-EMPTY", "deadletter replay --all", "deadletter resolve SETTLED --rejected --note x",
		"deadletter drop --all --yes", "hold", "resume", "limit 1/s", "limit none"} {
		code, out, errOut := runProgram(t, orderpost.Run, viewer, strings.Fields(args)...)
		require.NotContains(t, []int{cli.ExitDone, cli.ExitPartial}, code, "%s: %s%s", args, out, errOut)
	}
	b.requireUnharmed(t, "viewer")
}

// bare is a connection to the embedded broker of a data folder.
func bare(t *testing.T, settings map[string]string) *nats.Conn {
	t.Helper()
	cfg := queue.DefaultConfig()
	require.NoError(t, pool.JoinEmbedded(&cfg, settings["ORDERPOST_DATA_DIR"]))
	url, token, err := cfg.Locate()
	require.NoError(t, err)
	nc, err := nats.Connect(url, nats.Token(token), nats.Timeout(patience))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}
