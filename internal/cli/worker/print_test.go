package worker

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestFleetGolden: a fleet is told in 80 columns, whatever its workers say.
func TestFleetGolden(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ahead, behind := int64(12), int64(-123456)
	f := &fleet.View{
		Hold:       &fleet.Hold{Reason: "maintenance of the API, announced by its operator for the whole of the afternoon, ticket 4711", By: "anna", Since: noon, For: 30 * time.Hour},
		Limit:      &fleet.Limit{PerSecond: 50},
		Identity:   &fleet.Claim{Identity: fleet.Identity{URL: "https://api.example.com", Label: "shop"}},
		Unreadable: []string{"fleet.limit"},
		Members: []fleet.Presence{
			{Worker: "orderpost-worker-6b7f9c-x2x9z", Since: noon.Add(-49 * time.Hour), Version: "v1.2.0 3187736", InFlight: 64, Rate: 24.96, Share: 25, Open: true, ClockMS: &ahead},
			{Worker: "w-2\x1b[31m", Since: noon, Version: "devel", Rate: 0, ClockMS: &behind, Reasons: []string{
				"held by anna: maintenance of the API, announced by its operator for the whole of the afternoon", "requests to the API keep failing: no connection: refused (17 times), no answer: timeout (3 times)",
				"an answer with status 200 was not taken for accepted" + strings.Repeat(", and so on and so forth", 40)},
				Notes: []string{"going on with the old rules: rules.yaml:2: rule 1: unknown name statu"}},
			{Worker: "default.w-9", Version: "not understood by this version"},
		},
	}
	var out bytes.Buffer
	f.Members[0].P50MS, f.Members[0].P99MS, f.Members[0].Binds = 12.3, 1234, fleet.BindsLimit
	told := f.Tell(noon.Add(time.Hour), 30*time.Second)
	told.Pace = fleet.PaceOf(f.Members).Says()
	told.Absent = []fleet.AbsentText{{Text: "w-7 not seen for 12 s, its 64 orders go to others in 18 s"}}
	printFleet(&out, f, told, []string{"stream ORDERS_DEAD"})
	path := filepath.Join("testdata", "fleet.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o700))
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
	for line := range strings.Lines(out.String()) {
		require.NotContains(t, line, "\x1b")
		require.LessOrEqual(t, utf8.RuneCountInString(line)-1, fleetWidth, line)
	}
}

// TestAProposedRuleCanBeCopied: what `fleet` prints of a rule below "such as" is a rules
// file, whose verdict is the one proposed.
func TestAProposedRuleCanBeCopied(t *testing.T) {
	raw := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + `{"code":40012,"message":"it's refused: ` + strings.Repeat("a long story # ", 20) + `"}`)
	checked, err := answer.Check(nil, order.Resubmit, time.Minute, raw, 0, "A-1")
	require.NoError(t, err)
	var out bytes.Buffer
	f := &fleet.View{Members: []fleet.Presence{{Worker: "w1", Reasons: []string{checked.Hold}}}}
	printFleet(&out, f, fleet.Told{}, nil)
	_, proposed, found := strings.Cut(out.String(), "such as\n")
	require.True(t, found, out.String())
	rules, err := answer.ParseRules("rules.yaml", []byte("rules:\n"+proposed))
	require.NoError(t, err, proposed)
	again, err := answer.Check(rules, order.Resubmit, time.Minute, raw, 0, "A-1")
	require.NoError(t, err)
	require.Equal(t, 1, again.Rule)
	require.Equal(t, order.Unsure, again.Verdict)
	require.Equal(t, checked.Reason, again.Reason)
}
