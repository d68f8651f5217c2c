package deadletter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/approval"
	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

// annaHere is how records and the journal name $USER anna on this machine.
var annaHere = func() string {
	host, _ := os.Hostname()
	return "anna@" + host
}()

func TestMain(m *testing.M) { patient.Main(m) }

// office is a broker in a data folder, with a worker's hands on it.
type office struct {
	t       *testing.T
	q       *queue.Queue
	environ map[string]string
}

func open(t *testing.T) *office {
	t.Helper()
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	return &office{t, q, map[string]string{"ORDERPOST_DATA_DIR": s.Dir, "USER": "anna"}}
}

// run is one call of the program.
func (o *office) run(args ...string) (code int, stdout, stderr string) {
	o.t.Helper()
	var out, errOut bytes.Buffer
	code = deadletter.Run(o.t.Context(), args, o.environ, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

// settle enqueues orders and brings each to its end.
func (o *office) settle(end order.Report, nos ...string) {
	o.t.Helper()
	in := make([]settle.Intent, len(nos))
	for i, no := range nos {
		in[i] = settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"text":"=1"}`, no), ID: "b:" + no, Batch: "march"}
	}
	for _, r := range o.q.PublishMany(o.t.Context(), in) {
		require.NoError(o.t, r.Err)
	}
	o.work(end, len(nos))
}

// work takes n orders out of the queue and settles them.
func (o *office) work(end order.Report, n int) {
	o.t.Helper()
	require.NoError(o.t, o.q.Pull(o.t.Context(), n, 5*time.Second, func(ds []*settle.Delivery) {
		n -= len(ds)
		for _, d := range ds {
			_, err := o.q.Worker.Settle(context.Background(), d, &end, order.Decide(&end, order.Facts{}))
			require.NoError(o.t, err)
			d.Release()
		}
	}))
	require.Zero(o.t, n, "orders did not come")
	require.Eventually(o.t, func() bool {
		_ = o.q.Trimmer.Trim(o.t.Context())
		room, err := o.q.Census.Room(o.t.Context())
		return err == nil && room.Msgs == 0
	}, time.Minute, 5*time.Millisecond)
}

var (
	refused  = order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422, Final: true, Reason: "refused by status 422"}
	accepted = order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}
	doubtful = order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Reason: "no answer", History: order.History{Unsure: true, Attempts: 3}}
)

func TestListAndShow(t *testing.T) {
	o := open(t)
	code, out, _ := o.run("list")
	require.Zero(t, code)
	require.Equal(t, "No dead letters match.\n", out)
	o.settle(refused, "A-1", "A-2", "A-3")
	o.settle(doubtful, "B-1")

	code, out, _ = o.run("list", "--limit", "2")
	require.Zero(t, code)
	require.Contains(t, out, "4 dead letters\n")
	require.Contains(t, out, "        3  rejected   refused by status 422\n")
	require.Contains(t, out, "… and 2 more")

	_, out, _ = o.run("list", "--json", "--order-no", "A-*")
	require.Equal(t, 3, strings.Count(out, "\n"))
	var l settle.Letter
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &l))
	require.Equal(t, "A-1", l.OrderNo)

	code, out, _ = o.run("show", "B-1")
	require.Zero(t, code)
	require.Regexp(t, `orderpost deadletter resolve B-1 --seen [A-Z2-7]{26} --accepted`, out)
	code, _, errOut := o.run("show", "nobody")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, errOut, "nobody")
}

func TestUsage(t *testing.T) {
	environ := map[string]string{"ORDERPOST_DATA_DIR": t.TempDir()}
	for _, args := range []string{"", "list --outcome lost", "list --json --csv", "show", "replay", "replay --all --batch x", "replay --all --deadline soon", "replay --all --rate NaN", "replay --all --rate Inf", "resolve A-1 --by x --note y", "resolve A-1 --by x --accepted", "drop --all --by x", "export --format xml", "list --nonsense"} {
		var out, errOut bytes.Buffer
		require.Equal(t, cli.ExitUsage, deadletter.Run(t.Context(), strings.Fields(args), environ, strings.NewReader(""), &out, &errOut), "%s: %s", args, errOut.String())
		require.Empty(t, out.String())
	}
	var errOut bytes.Buffer
	require.Equal(t, cli.ExitUnreachable, deadletter.Run(t.Context(), []string{"list"}, environ, nil, &bytes.Buffer{}, &errOut))
}

func TestReplay(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1", "A-2", "A-3", "A-4")
	o.settle(doubtful, "B-1")

	code, out, errOut := o.run("replay", "--order-no", "nobody", "--dry-run")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "No dead letters match.")
	code, out, _ = o.run("replay", "--all", "--dry-run")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, out, "4 would be replayed\n")
	require.Contains(t, out, "1 stay: the order may exist")

	code, out, _ = o.run("replay", "--outcome", "rejected", "--limit", "3", "--rate", "1000", "--json")
	require.Zero(t, code, out)
	require.Contains(t, out, `"replayed":3`)
	code, out, _ = o.run("replay", "--order-no", "A-4")
	require.Zero(t, code, out)
	o.work(accepted, 4)

	code, out, _ = o.run("replay", "--all")
	require.Equal(t, cli.ExitPartial, code, out)
	code, out, errOut = o.run("replay", "--all", "--resubmit-unknown", "--note", "the API refuses duplicates")
	require.Zero(t, code, out+errOut)
	o.work(accepted, 1)
	entry, err := o.q.Ledger.Lookup(t.Context(), "B-1")
	require.NoError(t, err)
	require.Equal(t, "accepted", entry.Record.Word)
	require.Equal(t, annaHere, entry.Record.Interventions[0].By)
	require.Equal(t, "the API refuses duplicates", entry.Record.Interventions[0].Note)
	o.balanced()
}

func (o *office) balanced() {
	o.t.Helper()
	code, out, errOut := o.run("audit")
	require.Zero(o.t, code, out+errOut)
	require.Contains(o.t, out, "The books balance.")
	code, out, _ = o.run("audit", "--json")
	require.Zero(o.t, code)
	require.Contains(o.t, out, `{"balanced":true,`)
}

func TestResolveAndDrop(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1", "A-2")
	o.settle(doubtful, "B-1")

	code, out, _ := o.run("resolve", "B-1", "--accepted", "--note", "seen in the back office")
	require.Zero(t, code)
	require.Contains(t, out, "order B-1 is accepted, by "+annaHere+" at 20")
	code, _, errOut := o.run("resolve", "A-1", "--accepted", "--note", "x")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, errOut, "nothing was changed")

	code, out, errOut = o.run("drop", "--order-no", "A-*", "--dry-run")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "2 would be dropped")
	require.NotNil(t, o.letter("A-1"), "nothing was dropped")
	_, err := o.q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-2", Body: []byte(`{"order_no":"A-2","timeout":30,"text":"=2"}`), ID: "again"})
	require.NoError(t, err)
	code, out, _ = o.run("drop", "--order-no", "A-*", "--dry-run")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, out, "1 would be dropped")
	require.Contains(t, out, "1 would stay: an intent for the order_no is in the queue")
	o.work(refused, 1)

	code, out, _ = o.run("drop", "--order-no", "A-1", "--yes")
	require.Zero(t, code)
	require.Contains(t, out, "1 dropped")
	_, out, _ = o.run("list", "--json")
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.Contains(t, out, `"A-2"`)
	o.balanced()
}

// TestActsThatNeedASecondPerson: a command asks, changes nothing, and says where people approve
// it, whoever --by says that it is.
func TestActsThatNeedASecondPerson(t *testing.T) {
	o := open(t)
	approval.SetRule(t.Context(), o.q, "resubmit-unknown,resolve", "w1", "test", zerolog.Nop())
	o.settle(refused, "A-1")
	o.settle(doubtful, "B-1", "B-2")
	for what, args := range map[string][]string{
		"resolve order B-1 as accepted":                    {"resolve", "B-1", "--accepted", "--note", "seen", "--by", "bob"},
		"resolve dead letters of import march as rejected": {"resolve", "--batch", "march", "--rejected", "--note", "gone", "--yes"},
		"replay dead letters, in doubt too":                {"replay", "--all", "--resubmit-unknown"},
	} {
		code, out, errOut := o.run(args...)
		require.Equal(t, cli.ExitPartial, code, errOut)
		require.Empty(t, out)
		require.Regexp(t, "nothing was done yet: two people, since nobody has checked who asks, must approve it \\("+what+"\\) in the console, on the page /approval\\?act=[a-z0-9]{20}\n", errOut)
	}
	f, err := imports.ReadFeeding(t.Context(), o.q, 0)
	require.NoError(t, err)
	require.Len(t, f.Approvals.Acts, 3)
	for _, a := range f.Approvals.Acts {
		require.Nil(t, a.Asker)
	}
	require.NotNil(t, o.letter("B-1"))
	_, out, _ := o.run("journal", "--kind", "resolve")
	require.Contains(t, strings.Join(strings.Fields(out), " "), "no result: it still runs, or waits for an approval")

	code, out, errOut := o.run("replay", "--batch", "march") // orders that certainly do not exist need nobody
	require.Equal(t, cli.ExitPartial, code, errOut)
	require.Contains(t, out, "1 replayed")
	o.work(accepted, 1)
	o.balanced()
}

// TestEmptyFilter: an empty value, as a script passes whose variable is not set, selects
// nothing more than a value would.
func TestEmptyFilter(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1")
	for _, flag := range []string{"batch", "outcome", "reason", "answer", "since", "until", "status", "order-no"} {
		for _, args := range [][]string{
			{"drop", "--reason", "e", "--yes"}, {"replay", "--reason", "e"}, {"export", "--reason", "e"}, {"list", "--reason", "e"},
			{"resolve", "--reason", "e", "--rejected", "--note", "x", "--yes"}, {"drop", "--all", "--yes"},
		} {
			code, _, errOut := o.run(append(args, "--"+flag, "")...)
			require.Equal(t, cli.ExitUsage, code, "%s --%s ''", args, flag)
			require.Contains(t, errOut, "--"+flag+" is empty: give a value, or leave the flag out (see ")
		}
	}
	require.NotNil(t, o.letter("A-1"))

	for _, command := range []string{"drop", "replay", "export", "list"} {
		code, _, errOut := o.run(command, "A-1", "--outcome", "rejected")
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, errOut, "an order number takes no filter")
		code, _, _ = o.run(command, "A-1", "A-2")
		require.Equal(t, cli.ExitUsage, code)
		code, _, errOut = o.run(command, "")
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, errOut, "a name is empty")
	}
	require.NotNil(t, o.letter("A-1"))
}

// TestOneOrder: every command takes an order number in the same way, and as it is: a star in
// it is no wildcard.
func TestOneOrder(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1", "A-*", "A-3")
	for _, command := range []string{"list", "export"} {
		code, out, errOut := o.run(command, "A-*")
		require.Zero(t, code, errOut)
		require.Contains(t, out, "A-*")
		require.NotContains(t, out, "A-1")
	}
	code, _, errOut := o.run("drop", "A-*", "--yes")
	require.Zero(t, code, errOut)
	require.Nil(t, o.letter("A-*"))
	require.NotNil(t, o.letter("A-1"))
	code, _, errOut = o.run("replay", "A-1")
	require.Zero(t, code, errOut)
	code, out, errOut := o.run("replay", "A-1")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "1 under way: an earlier replay or lookup is in the queue")
	_, out, _ = o.run("list")
	require.Regexp(t, "(?m)A-1 +under way$", out)
	require.Regexp(t, "(?m)A-3 +refused by status", out)
	require.NotNil(t, o.letter("A-3"))
	code, _, errOut = o.run("replay", "A-3", "--all")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "--all")
}

// TestResolveAGroup: a filter, a preview, and one entry in the journal.
func TestResolveAGroup(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1")
	o.settle(doubtful, "B-1", "B-2", "B-3")

	group := []string{"resolve", "--order-no", "B-*", "--accepted", "--note", "the API lists them"}
	code, _, errOut := o.run(group...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "there is no terminal to ask on; give --yes")
	code, _, errOut = o.run("resolve", "--accepted", "--note", "x", "--yes")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "give an order number, a filter, or --all")
	code, _, errOut = o.run("resolve", "B-1", "--outcome", "unknown", "--accepted", "--note", "x")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "an order number takes neither a filter")

	code, out, _ := o.run("resolve", "--all", "--accepted", "--dry-run")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, out, "3 would be accepted\n")
	require.Contains(t, out, "1 stay: the outcome is not in doubt\n")
	require.NotNil(t, o.letter("B-1"), "nothing was changed")

	code, out, errOut = o.run(append(group, "--yes")...)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "3 accepted\n")
	for _, no := range []string{"B-1", "B-2", "B-3"} {
		entry, err := o.q.Ledger.Lookup(t.Context(), no)
		require.NoError(t, err)
		require.Equal(t, "accepted", entry.Record.Word)
		require.Equal(t, annaHere, entry.Record.By)
		require.Nil(t, o.letter(no))
	}
	require.NotNil(t, o.letter("A-1"))
	code, out, _ = o.run("journal", "--json")
	require.Zero(t, code)
	require.Equal(t, 1, strings.Count(out, `"kind":"resolve"`), out)
	require.Contains(t, out, `"order-no":["B-*"]`)

	code, out, _ = o.run("resolve", "--outcome", "unknown", "--rejected", "--note", "none", "--yes", "--json")
	require.Zero(t, code)
	require.JSONEq(t, `{"dry_run":true,"as":"rejected","orders":{"resolved":0,"gone":0,"certain":0,"pending":0,"failed":0},"errors":[]}`, out)
	o.balanced()
}

// TestRefusalsAreToldApartByWhatTheAnswerSays: the same status, two reasons.
func TestRefusalsAreToldApartByWhatTheAnswerSays(t *testing.T) {
	o := open(t)
	poor, odd := refused, refused
	poor.Said, odd.Said = "40012: balance # is too low", "40017: symbol # is halted"
	o.settle(poor, "A-1", "A-2")
	o.settle(odd, "B-1")
	code, out, _ := o.run("list")
	require.Zero(t, code)
	require.Contains(t, out, "2  rejected   refused by status 422\n           422        40012: balance # is too low\n")
	require.Contains(t, out, "1  rejected   refused by status 422\n           422        40017: symbol # is halted\n")
	code, out, errOut := o.run("replay", "--answer", "symbol # IS HALTED")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "1 replayed\n")
	o.work(accepted, 1)
	_, out, _ = o.run("list", "--json")
	require.Equal(t, 2, strings.Count(out, `"said":"40012: balance # is too low"`))
	o.balanced()
}

func (o *office) letter(no string) *settle.Letter {
	o.t.Helper()
	l, err := o.q.Ledger.Letter(o.t.Context(), no)
	require.NoError(o.t, err)
	return l
}

// awkward are orders that a careless export would change.
var awkward = map[string]string{
	"N-1": `{"order_no":"N-1","timeout":30,"lines":[{"sku":"00012","qty":2,"price":12.50,"tags":[]},{"sku":"","qty":0,"note":null}],"gift":true}`,
	"N-2": `{ "timeout" : 30,
		"order_no" : "N-2", "amount":-0.001, "big":9007199254740991, "deep":{"a":{"b":{"c":[[[]]]}}} }`,
	"N-3": "{\"order_no\":\"N-3\",\"timeout\":30,\"text\":\"Zürich 東京 🚚 \u2028 \\u00e9 \\\"q\\\" \\\\ \\/ \\n\"}",
	"N-4": `{"order_no":"N-4","timeout":30,"a.b":"dots","qty:int":"colon","_row":"ours","=1+1":"=cmd","":"nameless"}`,
	"N-5": `{"order_no":"N-5","timeout":30,"text":"007","empty":"","timestamp":1700000000000}`,
}

// flatOnes are awkward in cells.
var flatOnes = map[string]string{
	"F,1": `{"order_no":"F,1","timeout":30,"text":"0007","note":"a \"quoted\" word, a comma;\nand a second line"}`,
	"F-2": `{"order_no":"F-2","timeout":30,"text":"true","note":"  padded  "}`,
	"F-3": `{"order_no":"F-3","timeout":30,"text":"","note":"Zürich 東京 🚚"}`,
	"F-4": `{"order_no":"F-4","timeout":30,"text":"=1+1","note":"\\."}`,
}

// TestExportComesBackAsItWas: awkward orders through export and enqueue, sent
// again with the same bodies.
func TestExportComesBackAsItWas(t *testing.T) {
	for format, orders := range map[string]map[string]string{"ndjson": awkward, "csv": flatOnes} {
		t.Run(format, func(t *testing.T) {
			o := open(t)
			var in []settle.Intent
			for no, body := range orders {
				in = append(in, settle.Intent{OrderNo: no, Body: []byte(body), ID: "b:" + no})
			}
			for _, r := range o.q.PublishMany(t.Context(), in) {
				require.NoError(t, r.Err)
			}
			o.work(refused, len(in))
			before := map[string]string{}
			for no := range orders {
				entry, err := o.q.Ledger.Lookup(t.Context(), no)
				require.NoError(t, err)
				require.Equal(t, "rejected", entry.Record.Word, "%s: %s", no, entry.Record.Error)
				before[no] = entry.Record.BodyHash
			}
			code, out, errOut := o.run("export", "--format", format)
			require.Zero(t, code, errOut)

			var got, bad bytes.Buffer
			code = enqueue.Run(t.Context(), []string{"-", "--retry-failed", "--direct"}, o.environ, strings.NewReader(out), &got, &bad)
			require.Zero(t, code, "%s\n%s", bad.String(), out)
			o.work(accepted, len(orders))
			for no := range orders {
				entry, err := o.q.Ledger.Lookup(t.Context(), no)
				require.NoError(t, err)
				require.Equal(t, "accepted", entry.Record.Word, no)
				require.Equal(t, before[no], entry.Record.BodyHash, no)
				require.NotEmpty(t, before[no])
			}
			o.balanced()
		})
	}
}

func TestExportNamesWhatItCannotCarry(t *testing.T) {
	o := open(t)
	_, err := o.q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "C-1", Body: []byte(`{"order_no":"C-1","qty":1}`)})
	require.NoError(t, err)
	_, err = o.q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "C-2", Body: []byte("no json")})
	require.NoError(t, err)
	o.work(refused, 2)
	code, out, errOut := o.run("export")
	require.Equal(t, cli.ExitPartial, code)
	require.Equal(t, "{\"order_no\":\"C-1\",\"qty\":1}\n", out)
	require.Contains(t, errOut, `"C-2"`)
	code, out, errOut = o.run("export", "--format", "csv")
	require.Equal(t, cli.ExitPartial, code)
	require.Empty(t, out)
	require.Contains(t, errOut, `"C-1"`)
}

// TestNobodyIsAskedForAName: without USER the record names the process's user id, as
// the journal does.
func TestNobodyIsAskedForAName(t *testing.T) {
	o := open(t)
	delete(o.environ, "USER")
	o.settle(doubtful, "A-1", "A-2")
	code, out, errOut := o.run("resolve", "A-2", "--rejected", "--note", "looked")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "order A-2 is rejected, by uid-")
	code, _, errOut = o.run("drop", "--all", "--yes")
	require.Zero(t, code, errOut)
}

// Whoever replays while the fleet is held is told that the orders wait.
func TestReplayTellsThatNothingIsSent(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1", "A-2")
	require.NoError(t, fleet.New(o.q).SetHold(t.Context(), fleet.Hold{By: "otto", Reason: "month end closing", Since: time.Now()}))
	code, out, errOut := o.run("replay", "--order-no", "A-1", "--dry-run")
	require.Zero(t, code, errOut)
	require.NotContains(t, out, "othing is sent", "nothing waits")
	code, out, errOut = o.run("replay", "--order-no", "A-1")
	require.Zero(t, code, errOut)
	require.Regexp(t, `(?m)^Nothing is sent since .* UTC: held by otto: month end closing\. The orders wait\.$`, out)
	code, out, errOut = o.run("replay", "--all", "--json")
	require.Zero(t, code, errOut)
	require.Regexp(t, `"nothing_sent":"nothing is sent since [^"]*: held by otto: month end closing"`, out)
}

// TestLookup: the orders in doubt go into the queue to be looked up, and all others stay.
func TestLookup(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1")
	o.settle(doubtful, "B-1", "B-2")
	code, out, errOut := o.run("lookup", "--all", "--for", "25h", "--rate", "-1")
	require.Equal(t, cli.ExitUsage, code, out)
	require.Contains(t, errOut, "--for: must be above 0 and at most 24h0m0s, is 25h0m0s")
	require.Contains(t, errOut, "--rate")

	code, out, _ = o.run("lookup", "--all", "--dry-run")
	require.Equal(t, cli.ExitPartial, code)
	require.Equal(t, "        2 would be looked up\n        1 stay: the outcome is not in doubt\n", out)
	code, out, errOut = o.run("lookup", "--outcome", "unknown", "--json", "--note", "a rule for it was written")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Contains(t, out, `"asked":2`)
	code, out, _ = o.run("lookup", "B-1")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "        1 under way: an earlier replay or lookup is in the queue\n")
	code, out, _ = o.run("journal")
	require.Zero(t, code)
	require.Contains(t, out, "lookup")
	require.Contains(t, out, "for: 1h0m0s")

	require.NoError(t, o.q.Pull(t.Context(), 2, 5*time.Second, func(ds []*settle.Delivery) {
		for _, d := range ds {
			require.False(t, d.Allowed)
			require.WithinDuration(t, time.Now().Add(time.Hour), d.Intent.LookupUntil, 10*time.Minute)
			found := order.Report{End: order.EndAnswer, Verdict: order.Duplicate, History: d.History}
			_, err := o.q.Worker.Settle(context.Background(), d, &found, order.Decide(&found, order.Facts{}))
			require.NoError(t, err)
			d.Release()
		}
	}))
	code, out, _ = o.run("list", "--outcome", "unknown")
	require.Zero(t, code)
	require.Contains(t, out, "No dead letters match.")
}
