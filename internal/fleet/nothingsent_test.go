package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/submit/gate"
)

// TestNothingSent: one sentence says that nothing is sent, since when and why.
func TestNothingSent(t *testing.T) {
	now := time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC)
	quarter := now.Add(-15 * time.Minute)
	worker := func(name string, shut time.Duration, reasons ...string) Presence {
		return Presence{Worker: name, ID: name, SeenAt: now, Open: len(reasons) == 0, ShutMS: shut.Milliseconds(), Reasons: reasons}
	}
	down := func(times int) string { return fmt.Sprintf("%s: status 500 (%d times)", gate.APIFails, times) }
	for name, c := range map[string]struct {
		view View
		want string
	}{
		"a worker sends": {View{Members: []Presence{worker("w-1", 0), worker("w-2", time.Hour, "its disk is full")}}, ""},
		"held": {View{Hold: &Hold{By: "anna", Reason: "month end closing", Since: quarter}, Members: []Presence{worker("w-1", time.Minute, "held by anna: month end closing")}},
			"nothing is sent since 19:45 UTC: held by anna: month end closing"},
		"held for a time": {View{Hold: &Hold{Since: quarter, For: 5 * time.Hour}},
			"nothing is sent since 19:45 UTC: held by somebody for 5h"},
		"the API is down": {View{Members: []Presence{worker("w-1", 15*time.Minute, down(20)+". Since then one order was tried, and failed: status 500"), worker("w-2", 14*time.Minute, down(11))}},
			"nothing is sent since 19:46 UTC: the API is down: status 500 (20 times)"},
		"the API is down, and a disk is full": {View{Members: []Presence{worker("w-1", time.Hour, down(20), "the disk is full.", "a third"), worker("w-2", time.Hour, down(11), "the disk is full.")}},
			"nothing is sent since 19:00 UTC: the API is down: status 500 (20 times); a third; and 1 more"},
		"the last gate that closed counts": {View{Members: []Presence{worker("w-1", 5*time.Minute, "x"), worker("w-2", 26*time.Hour, "x")}},
			"nothing is sent since 19:55 UTC: x"},
		"on another day":          {View{Members: []Presence{worker("w-1", 26*time.Hour, "x")}}, "nothing is sent since 2026-02-28 18:00 UTC: x"},
		"a throttle of a moment":  {View{Members: []Presence{worker("w-1", time.Hour, "x"), worker("w-2", time.Second, "the API asks for slower requests (for 1s)")}}, ""},
		"an entry without a time": {View{Members: []Presence{worker("w-1", 0, "x")}}, "nothing is sent: x"},
		"nobody runs":             {View{}, "nothing is sent: no worker is running"},
		"the broker's disk is full": {View{Now: now, StoresNothing: "insufficient storage", Members: []Presence{{Worker: "w-1", ID: "1", Open: true, SeenAt: quarter}}},
			"nothing is sent since 19:45 UTC: the broker stores nothing (insufficient storage): is its disk full? Workers that run cannot say so, and post nothing"},
		"the only worker was killed":                 {View{Now: now, Members: []Presence{{Worker: "w-1", ID: "1", Open: true, SeenAt: quarter}}}, "nothing is sent since 19:45 UTC: no worker is running"},
		"an entry that cannot be read may be a hold": {View{Unreadable: []string{"fleet.hold"}}, "nothing is sent: the control bucket's fleet.hold cannot be read by this version"},
	} {
		t.Run(name, func(t *testing.T) {
			c.view.Now = now
			require.Equal(t, c.want, c.view.NothingSent(now))
		})
	}
	long := (&View{Now: now, Members: []Presence{worker("w-1", time.Hour, strings.Repeat("ü", 10_000))}}).NothingSent(now)
	require.Less(t, len([]rune(long)), 1100, "it is a banner")
	cause := "an answer with status 200 settles nothing: its body says code = 100104. The answer begins: " + strings.Repeat("x", 200) + ". Write a rule for it into the ORDERPOST_RULES file"
	whole := (&View{Now: now, Members: []Presence{worker("w-1", time.Hour, cause+", such as\n  - name: 'x'\n    when: 'y'")}}).NothingSent(now)
	require.Equal(t, "nothing is sent since 19:00 UTC: "+cause+"; orderpost fleet proposes one", whole)
}

// TestAWorkerThatIsFrozenIsNamed: it does not vanish without a word, and its orders are
// accounted for. The broker's time decides, also if it is the only worker.
func TestAWorkerThatIsFrozenIsNamed(t *testing.T) {
	now := time.Now().Add(10 * time.Minute) // the broker's, and this machine's clock is wrong
	ago := func(name string, d time.Duration, inHand int) Presence {
		return Presence{Worker: name, ID: name + d.String(), SeenAt: now.Add(-d), InFlight: inHand, Open: true}
	}
	says := func(ackWait time.Duration, members ...Presence) (out []string) {
		v := &View{Now: now, Members: members}
		for _, a := range v.Absent() {
			out = append(out, a.Says(ackWait))
		}
		return out
	}
	w1 := ago("w-1", time.Second, 3)
	require.Empty(t, says(30*time.Second, w1, ago("w-2", absentAfter, 64)))
	require.Equal(t, []string{"w-2 not seen for 5 s, its 64 orders go to others in 25 s"}, says(30*time.Second, w1, ago("w-2", 5*time.Second, 64)))
	require.Equal(t, []string{"w-2 not seen for 12 s, its 64 orders go to others in 18 s"}, says(30*time.Second, w1, ago("w-2", 12*time.Second, 64)))
	require.Equal(t, []string{"w-3 not seen for 31 s, its order has gone to others", "w-2 not seen for 40 s, its 64 orders have gone to others"},
		says(30*time.Second, w1, ago("w-2", 40*time.Second, 64), ago("w-3", 31*time.Second, 1)))
	require.Equal(t, []string{"w-2 not seen for 12 s, its 64 orders go to the next worker that starts, in 18 s"}, says(30*time.Second, ago("w-2", 12*time.Second, 64)))
	require.Equal(t, []string{"w-2 not seen for 50 s, its 64 orders go to the next worker that starts"}, says(30*time.Second, ago("w-2", 50*time.Second, 64)))
	require.Equal(t, []string{"a former run of w-1 not seen for 8 s, it had no orders in hand"}, says(30*time.Second, w1, ago("w-1", 8*time.Second, 0)))
	require.Equal(t, []string{"w-2 not seen for 12 s, its 64 orders go to others"}, says(0, w1, ago("w-2", 12*time.Second, 64)))
}

// TestLookAsksForTheBrokersTime: a single worker that was killed is not present.
func TestLookAsksForTheBrokersTime(t *testing.T) {
	n := open(t, startBroker(t), "a")
	require.NoError(t, n.Appear(t.Context(), Presence{Worker: "w-1", ID: "1", Open: true}))
	v, err := n.Look(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), v.Now, time.Minute)
	require.Len(t, v.Present(), 1)
	require.Empty(t, v.NothingSent(v.Now))
	v.Now = v.Now.Add(2 * PresenceTerm)
	require.Empty(t, v.Present())
	require.Contains(t, v.NothingSent(v.Now), ": no worker is running")
}

// TestPace: the fleet says what holds its rate, and how slow the API is.
func TestPace(t *testing.T) {
	w := func(binds Binds, p50, p99 float64, silent int64) Presence {
		return Presence{Rate: 10, Slots: 64, InFlight: 64, Binds: binds, P50MS: p50, P99MS: p99, SilentMS: silent}
	}
	for want, workers := range map[string][]Presence{
		"": {{Slots: 64}},
		"nothing holds the rate; answers take 12 ms (p50) and 80 ms (p99)":                                             {w("", 12, 80, 0), w("", 3, 5, 0)},
		"the rate limit holds the rate; answers take 12 ms (p50) and 1.5 s (p99)":                                      {w(BindsLimit, 12, 1500, 0)},
		"the slots hold the rate: 128 of 128 are in use (at 1 of 2 workers); answers take 12 ms (p50) and 80 ms (p99)": {w(BindsSlots, 12, 80, 0), w("", 12, 80, 0)},
		"the API is slow: answers take 10 s (p50) and 11.2 s (p99); 64 of 64 slots are in use":                         {w(BindsAPI, 10_000, 11_200, 0)},
		"the API is slow: it has answered nothing for 4 s, and 64 orders wait for it":                                  {w(BindsAPI, 12, 80, 4200)},
		"the API is slow: answers take 8 s (p50) and 9 s (p99); 64 of 64 slots are in use":                             {w(BindsAPI, 8000, 9000, 4200)},
		"the API holds the rate: it asked for fewer requests; answers take 12 ms (p50) and 80 ms (p99)":                {w(BindsAPI, 12, 80, 0)},
	} {
		require.Equal(t, want, PaceOf(workers).Says())
	}
}
