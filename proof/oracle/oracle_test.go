package oracle

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// outside is a history of real programs about the order A, which nothing is wrong
// with: worker-1 has it delivered, posts it, and is killed; worker-2 gets it again,
// hears that it exists, records that, and acknowledges. Tests change one line.
const outside = `{"at":0,"kind":"begin","settings":{"start":"2026-11-22T12:00:00Z","on_unsure":"resubmit","ack_wait_ns":3000000000,"outside":true}}
{"at":0.1,"kind":"started","process":"worker-1.1","why":"worker-1"}
{"at":0.1,"kind":"started","process":"worker-2.1","why":"worker-2"}
{"at":1,"kind":"published","order_no":"A","intent_id":"a"}
{"at":1.1,"kind":"stored","order_no":"A"}
{"at":1.2,"kind":"delivered","process":"worker-1.1","order_no":"A","intent_id":"a","seq":7,"delivery":"r1","delivered":1}
{"at":1.3,"kind":"posted","process":"worker-1.1","order_no":"A","timestamp":1001}
{"at":1.4,"kind":"arrived","order_no":"A","timestamp":1001,"why":"created"}
{"at":1.4,"kind":"created","order_no":"A"}
{"at":1.5,"kind":"ended","process":"worker-1.1"}
{"at":4.2,"kind":"delivered","process":"worker-2.1","order_no":"A","intent_id":"a","seq":7,"delivery":"r2","delivered":2}
{"at":4.25,"until":4.26,"kind":"recorded","order_no":"A","seq":20,"replaces":0,"record":{"order_no":"A","outcome":"retrying","note":"attempt","intent_id":"a","worker":"worker-2","delivered":2,"unsure":true}}
{"at":4.3,"kind":"posted","process":"worker-2.1","order_no":"A","timestamp":1002}
{"at":4.31,"kind":"arrived","order_no":"A","timestamp":1002,"why":"duplicate"}
{"at":4.32,"kind":"answered","process":"worker-2.1","order_no":"A","timestamp":1002,"verdict":"duplicate"}
{"at":4.4,"until":4.41,"kind":"recorded","order_no":"A","seq":21,"replaces":20,"record":{"order_no":"A","outcome":"accepted","intent_id":"a","worker":"worker-2","settled":1,"settled_at":"2026-11-22T12:00:04.39Z","delivered":2}}
{"at":4.5,"kind":"acknowledged","delivery":"r2"}
{"at":9,"kind":"end"}
`

func judged(t *testing.T, text string) *Oracle {
	t.Helper()
	events, err := Read(strings.NewReader(text))
	require.NoError(t, err)
	return Judge(events)
}

func TestAHistoryOfRealPrograms(t *testing.T) {
	o := judged(t, outside)
	require.Empty(t, o.Findings)
	require.Equal(t, Counts{Orders: 1, Intents: 1, Deliveries: 2, Posts: 2, Records: 2, Created: 1, Acknowledged: 1,
		Outcomes: o.Counts.Outcomes}, o.Counts)
	require.Equal(t, 1, o.Counts.Outcomes[order.OutcomeAccepted])
}

// TestWhatAHistoryShows: for each invariant that real programs can break, a history
// that shows it, with the line that gives it away.
func TestWhatAHistoryShows(t *testing.T) {
	edit := func(pairs ...string) string {
		text := outside
		for i := 0; i < len(pairs); i += 2 {
			require.Contains(t, text, pairs[i])
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return text
	}
	line := func(of string) string { // with its end
		for l := range strings.Lines(outside) {
			if strings.Contains(l, of) {
				return l
			}
		}
		t.Fatal(of)
		return ""
	}
	accepted, ack := line(`"outcome":"accepted"`), line(`"acknowledged"`)
	for name, c := range map[string]struct {
		text, invariant, rule string
		line                  int
	}{
		"acknowledged before it is recorded": {edit(`{"at":4.5,`, `{"at":4.35,`), AckLast, "R4", 17},
		"never recorded":                     {edit(accepted, ""), AckLast, "R4", 16},
		"never delivered": {edit(line(`"seq":7,"delivery":"r1"`), "", line(`"timestamp":1001}`), "", line(`"worker-2.1","order_no":"A","intent_id"`), "", line(`"attempt"`), "",
			line(`"timestamp":1002}`), "", line(`"answered"`), "", accepted, "", ack, ""), OneOutcome, "R11", 4},
		"accepted and posted": {edit(`{"at":4.25,"until":4.26`, `{"at":1.6,"until":1.7`, `"outcome":"retrying","note":"attempt"`, `"outcome":"accepted"`), AcceptedOnce, "R2", 12},
		"posted before its delay is over": {edit(`{"at":4.25,"until":4.26`, `{"at":1.6,"until":1.7`, `"note":"attempt"`, `"note":"delayed","not_before":"2026-11-22T12:00:08Z"`),
			Delay, "R9", 12},
		"accepted and nothing there":     {edit(line(`"created","order_no"`), ""), True, "R3", 15},
		"created and nobody asked":       {edit(ack, ack+`{"at":5,"kind":"created","order_no":"B"}`+"\n"), True, "R3", 19},
		"a timestamp twice":              {edit(`"order_no":"A","timestamp":1002}`, `"order_no":"A","timestamp":1001}`), Stamped, "docs/signing.md", 13},
		"a request twice":                {edit(line(`"why":"duplicate"`), line(`"why":"duplicate"`)+line(`"why":"duplicate"`)), Stamped, "docs/signing.md", 15},
		"an outcome overwritten":         {edit(ack, ack+strings.Replace(strings.Replace(accepted, `"seq":21,"replaces":20`, `"seq":22,"replaces":21`, 1), `"accepted"`, `"rejected"`, 1)), Stays, "R1", 16},
		"a write that nobody looked for": {edit(`"replaces":20`, `"replaces":0`), Conditional, "R1", 12},
		"a letter that is gone":          {edit(`"outcome":"accepted"`, `"outcome":"unknown","letter":3`, ack, ack+`{"at":5,"kind":"filed","order_no":"A","seq":3,"intent_id":"a"}`+"\n"+`{"at":6,"kind":"unfiled","order_no":"A","seq":3}`+"\n"), Letters, "R4", 16},
		"a failure without a letter":     {edit(`"outcome":"accepted"`, `"outcome":"unknown"`), Letters, "R4", 16},
		"poison without proof":           {edit(`"outcome":"accepted"`, `"reason":"poison","outcome":"unknown"`), Poison, "R8", 16},
		"still in the queue":             {edit(ack, ""), Settled, "R11", 17},
		"the former owner posts after the new one": {edit(ack, `{"at":4.45,"kind":"posted","process":"worker-1.1","order_no":"A","timestamp":1003}`+"\n"+ack,
			line(`"started","process":"worker-2.1"`), line(`"started","process":"worker-2.1"`)+`{"at":0.2,"kind":"reconnected","process":"worker-2.1"}`+"\n"), OneClaim, "R7", 14},
		"posted again after an answer": {edit(`{"at":1.5,"kind":"ended","process":"worker-1.1"}`, `{"at":1.5,"kind":"answered","process":"worker-1.1","order_no":"A","timestamp":1001,"verdict":"accepted"}`+"\n"+
			`{"at":1.6,"kind":"handed-back","delivery":"r1"}`), Explained, "R2", 7},
		"parked and posted": {edit(`"resubmit"`, `"park"`), Park, "R3", 7},
	} {
		t.Run(name, func(t *testing.T) {
			o := judged(t, c.text)
			require.NotEmpty(t, o.Findings)
			var all []string
			for _, f := range o.Findings {
				if f.Invariant == c.invariant {
					require.Contains(t, f.Rule(), c.rule)
					require.Contains(t, f.Lines, c.line, "%v", f)
					return
				}
				all = append(all, f.String())
			}
			t.Fatal(all)
		})
	}
}

// A delay counts by the clock of the worker that wrote it. It is kept if it is over by
// the true time, or by the clock of the worker that posts, or if that worker could read
// a later record that has none.
func TestADelayAmongClocksThatDiffer(t *testing.T) {
	const before = `{"at":1.5,"kind":"ended","process":"worker-1.1"}` + "\n"
	history := func(ends string, lines ...string) string {
		text := strings.Replace(outside, `"seq":20,"replaces":0`, `"seq":20,"replaces":9`, 1)
		note := `{"at":1.45,"kind":"recorded","order_no":"A","seq":8,"replaces":0,"record":{"order_no":"A","outcome":"retrying","note":"delayed","not_before":"2026-11-22T` + ends + `Z","intent_id":"a","worker":"worker-1","delivered":1}}`
		again := `{"at":1.47,"kind":"recorded","order_no":"A","seq":9,"replaces":8,"record":{"order_no":"A","outcome":"retrying","note":"delayed","not_before":"2026-11-22T` + ends + `Z","intent_id":"a","worker":"worker-2","delivered":1}}`
		return strings.Replace(text, before, strings.Join(append(lines, note, again), "\n")+"\n"+before, 1)
	}
	set := func(worker, at, shift string) string {
		return `{"at":` + at + `,"kind":"clock-set","process":"` + worker + `.1","shift":` + shift + `}`
	}
	handedBack := `{"at":4.22,"kind":"recorded","order_no":"A","seq":10,"replaces":9,"record":{"order_no":"A","outcome":"retrying","note":"handed-back","intent_id":"a","worker":"worker-1","delivered":1}}`
	for name, c := range map[string]struct {
		text   string
		broken bool
	}{
		"over":                                {history("12:00:04"), false},
		"too early":                           {history("12:00:08"), true},
		"the writer is ahead, and it is over": {history("12:10:04", set("worker-1", "0.5", "600")), false},
		"the writer is ahead, and it is not over":    {history("12:10:08", set("worker-1", "0.5", "600")), true},
		"the writer was ahead when it had the order": {history("12:10:04", set("worker-1", "0.5", "600"), set("worker-1", "1.41", "0")), false},
		"the writer was ahead before that":           {history("12:10:04", set("worker-1", "0.5", "600"), set("worker-1", "1", "0")), true},
		"the other one is ahead":                     {history("12:00:08", set("worker-2", "0.5", "5")), false},
		"the other one was ahead before":             {history("12:00:08", set("worker-2", "0.5", "5"), set("worker-2", "0.6", "0")), true},
		"both are behind":                            {history("11:50:08", set("worker-1", "0.5", "-600"), set("worker-2", "0.5", "-600")), true},
		"a later record has none":                    {strings.Replace(history("12:00:08"), `"replaces":9`, `"replaces":10`, 1) + handedBack + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			found := judged(t, c.text).Findings
			if !c.broken {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, Delay, found[0].Invariant)
		})
	}
}

// The gate of a worker stays closed while any order waits until its result is stored. One
// that is given up, or whose result is stored, opens it only if it was the last.
func TestTheGateStaysClosedForTheLastOrder(t *testing.T) {
	history := func(lines ...string) string {
		return `{"at":0,"kind":"begin","settings":{"start":"2026-11-22T12:00:00Z","on_unsure":"resubmit","ack_wait_ns":3000000000}}
{"at":1,"kind":"full"}
{"at":1.1,"kind":"refused","process":"w0.1","order_no":"A"}
{"at":1.2,"kind":"refused","process":"w0.1","order_no":"B"}
` + strings.Join(append(lines, ""), "\n") + `{"at":1.5,"kind":"posted","process":"w0.1","order_no":"C","attempt":1,"gate":1.4,"signed":1.5}
{"at":9,"kind":"end"}`
	}
	given := func(up string) string {
		return `{"at":1.3,"kind":"unrefused","process":"w0.1","order_no":"` + up + `"}`
	}
	for name, c := range map[string]struct {
		lines  []string
		broken bool
	}{
		"both wait":         {nil, true},
		"one was given up":  {[]string{given("A")}, true},
		"the other, too":    {[]string{given("A"), given("B")}, false},
		"there is room":     {[]string{`{"at":1.3,"kind":"room"}`}, false},
		"of another worker": {[]string{given("A"), given("B"), `{"at":1.35,"kind":"refused","process":"w1.2","order_no":"D"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := judged(t, history(c.lines...)).Findings
			require.Equal(t, c.broken, len(found) == 1, "%v", found)
			if c.broken {
				require.Equal(t, Storage, found[0].Invariant)
			}
		})
	}
}

// An acknowledgement that the broker took along when it was killed is not missed.
func TestAnAcknowledgementThatNobodySaw(t *testing.T) {
	const ack = `{"at":4.5,"kind":"acknowledged","delivery":"r2"}`
	require.Empty(t, judged(t, strings.Replace(outside, ack, `{"at":8,"kind":"emptied"}`, 1)).Findings)
	left := `{"at":8,"kind":"emptied"}` + "\n" + `{"at":8,"kind":"stored","order_no":"A","seq":7}`
	require.Len(t, judged(t, strings.Replace(outside, ack, left, 1)).Findings, 1)
}

// A delivery that reached nobody shows in the next one's count, and is a reason for
// doubt. Without it there is none.
func TestADeliveryThatReachedNobody(t *testing.T) {
	history := func(count string) string {
		return `{"at":0,"kind":"begin","settings":{"start":"2026-11-22T12:00:00Z","on_unsure":"park","ack_wait_ns":3000000000,"outside":true}}
{"at":1,"kind":"stored","order_no":"A"}
{"at":4,"kind":"delivered","process":"worker-1.1","order_no":"A","intent_id":"a","seq":7,"delivery":"r2","delivered":` + count + `}
{"at":4.1,"kind":"filed","order_no":"A","seq":1,"intent_id":"a","outcome":"unknown"}
{"at":4.2,"kind":"recorded","order_no":"A","seq":1,"replaces":0,"record":{"order_no":"A","outcome":"unknown","intent_id":"a","settled":1,"unsure":true,"letter":1}}
{"at":4.3,"kind":"acknowledged","delivery":"r2"}
{"at":9,"kind":"end"}`
	}
	require.Empty(t, judged(t, history("2")).Findings)
	found := judged(t, history("1")).Findings
	require.Len(t, found, 1)
	require.Equal(t, Reason, found[0].Invariant)
}

// A record that nobody saw because the next one replaced it at once is counted, and
// nobody is blamed for what it may have said.
func TestARecordThatNobodySaw(t *testing.T) {
	text := strings.Replace(outside, `"seq":21,"replaces":20`, `"seq":29,"replaces":28`, 1)
	for _, acknowledged := range []string{"4.5", "4.35"} { // after and before the record that tells
		o := judged(t, strings.Replace(text, `{"at":4.5,`, `{"at":`+acknowledged+`,`, 1))
		require.Empty(t, o.Findings)
		require.Equal(t, 1, o.Counts.Unseen)
	}
}

func TestAFileThatIsNoHistory(t *testing.T) {
	for text, says := range map[string]string{"": "begins with", "{}": "begins with", "{\n": "line 1", `{"kind":"party"}`: "party",
		outside + `{"at":"noon","kind":"end"}`: "line 19"} {
		_, err := Read(strings.NewReader(text))
		require.ErrorContains(t, err, says)
	}
}

// Every invariant has a rule, which docs/protocol.md or docs/signing.md has.
func TestEveryInvariantHasARule(t *testing.T) {
	protocol, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	for _, name := range Invariants() {
		rule := Finding{Invariant: name}.Rule()
		if regexp.MustCompile(`^R\d+$`).MatchString(rule) {
			require.Contains(t, string(protocol), "\n## "+rule+"\n", name)
		} else {
			require.Contains(t, rule, "docs/signing.md", name)
		}
	}
}

func TestMoments(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Second, 4*time.Hour + 123456789, -5} {
		text, err := Moment(d).MarshalJSON()
		require.NoError(t, err)
		var back Moment
		require.NoError(t, back.UnmarshalJSON(text))
		require.Equal(t, Moment(d), back)
	}
}

// In a cluster the next leader of the consumer may give away what a worker holds, and
// nobody tells that worker. What it posts in the second after its successor's record is
// counted. After that it could know.
func TestAFormerOwnerInAClusterHasASecondToKnow(t *testing.T) {
	in := strings.Replace(outside, `"outside":true`, `"outside":true,"replicated":true`, 1)
	in = strings.Replace(in, `{"at":1.5,"kind":"ended","process":"worker-1.1"}`+"\n", "", 1)
	late := func(at string) *Oracle {
		post := `{"at":` + at + `,"kind":"posted","process":"worker-1.1","order_no":"A","timestamp":1003}` + "\n"
		end := `{"at":9,"kind":"end"}`
		return judged(t, strings.Replace(in, end, post+end, 1))
	}
	o := late("4.9")
	require.Empty(t, o.Findings)
	require.Equal(t, 1, o.Counts.FormerOwners)
	for _, f := range late("5.3").Findings { // a second after the note, not after the outcome
		require.Equal(t, OneClaim, f.Invariant)
	}
	require.NotEmpty(t, late("5.3").Findings)
	var broken []string
	for _, f := range late("8").Findings {
		broken = append(broken, f.Invariant)
	}
	require.Contains(t, broken, AcceptedOnce)
}
