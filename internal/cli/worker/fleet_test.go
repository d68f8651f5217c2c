package worker

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/testing/queuetest"
)

// annaHere is how records and the journal name $USER anna on this machine.
var annaHere = func() string {
	host, _ := os.Hostname()
	return "anna@" + host
}()

// fleetProgram starts a broker, and returns its queue and what runs a command there.
func fleetProgram(t *testing.T) (*queue.Queue, func(args ...string) (int, string)) {
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	return q, func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		code := Run(t.Context(), args, map[string]string{"ORDERPOST_DATA_DIR": s.Dir, "USER": "anna"}, nil, &out, &errOut)
		return code, out.String() + errOut.String()
	}
}

// TestAShorterHold would end a longer one unseen, so it is refused.
func TestAShorterHold(t *testing.T) {
	q, run := fleetProgram(t)
	held := func() *fleet.Hold {
		f, err := fleet.New(q).Read(t.Context())
		require.NoError(t, err)
		return f.Hold
	}
	hour := func(by string) {
		code, out := run("hold", "--for", "1h", "--by", by)
		require.Zero(t, code, out)
		require.Equal(t, by, held().By)
	}
	hour("otto")
	hour("berta") // ends no earlier
	code, out := run("hold", "--for", "3s", "--by", "otto")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Regexp(t, `the fleet is held by berta since [0-9: -]+ UTC, for [0-9hms]+\. A shorter hold`, out)

	code, out = run("hold", "--by", "anna", "--note", "month end closing")
	require.Zero(t, code, out)
	before := held()
	code, out = run("hold", "--for", "3s", "--by", "otto")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Regexp(t, `the fleet is held by anna since [0-9: -]+ UTC, until resume \(month end closing\)\. A shorter hold .* nothing was changed: .* resume first`, out)
	require.NotContains(t, out, "The fleet is held until")
	require.Equal(t, before, held())

	code, out = run("resume")
	require.Zero(t, code, out)
	hour("otto")

	require.NoError(t, q.Bucket().Put(t.Context(), "fleet.hold", "not a hold of this version"))
	code, out = run("hold", "--for", "1h")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Contains(t, out, "held by an entry that this version does not understand")
}

func TestFleetCommands(t *testing.T) {
	q, do := fleetProgram(t)
	run := func(args string) (int, string) { return do(strings.Fields(args)...) }

	code, out := run("fleet")
	require.Zero(t, code, out)
	require.Contains(t, out, "No worker is running.")

	code, out = run("hold --for 30m --reason maintenance")
	require.Zero(t, code, out)
	f, err := fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, annaHere, f.Hold.By)
	require.Equal(t, 30*time.Minute, f.Hold.For)

	code, out = run("limit")
	require.Zero(t, code, out)
	require.Equal(t, "The fleet's limit: by the workers' settings (ORDERPOST_RATE_LIMIT).\n", out)
	code, out = run("limit 600/m")
	require.Zero(t, code, out)
	code, out = run("limit")
	require.Zero(t, code, out)
	require.Equal(t, "The fleet's limit: 10/s, by "+annaHere+".\n", out)
	code, out = run("limit --json")
	require.Zero(t, code, out)
	require.Contains(t, out, `"per_second":10,"by":"`+annaHere+`"`)
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{ID: "0", Worker: "w0", Open: true, Limit: 25}))
	_, out = run("fleet")
	require.Regexp(t, `(?m)^w0 .* closed$`, out, "it did not hear of the hold yet, and nothing is sent")
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{ID: "1", Worker: "w1", Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Version: "v1 abcdef", InFlight: 7, Rate: 9.87, Share: 10, P50MS: 12, P99MS: 80, Reasons: []string{"held by anna: maintenance"}}))
	_, out = run("fleet")
	require.Contains(t, out, "Nothing is sent since ")
	require.Contains(t, out, "UTC: held by "+annaHere+" for 30m: maintenance")
	require.Contains(t, out, "Limit: 10/s\n")
	require.Contains(t, out, "w1                  03-01 12:00        7      9.9       10         -  closed\n  v1 abcdef, answers p50 12 ms, p99 80 ms\n  held by anna: maintenance\n")
	code, out = run("fleet --json")
	require.Zero(t, code)
	require.Contains(t, out, `"in_flight":7`)
	require.Regexp(t, `"nothing_sent":"nothing is sent since [^"]* for 30m: maintenance"`, out)
	require.Contains(t, out, `"p99_ms":80`)

	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, d := range []fleet.Door{{Kind: fleet.DoorGateway, Name: "g1", Since: since, Version: "v1"},
		{Kind: fleet.DoorNotify, Name: "n1", Since: since, Version: "v1", Sends: true, Backlog: 12, Problem: "no answer within 15s"},
		{Kind: fleet.DoorNotify, Name: "n2", Since: since, Version: "v1"}} {
		ctx, hide := context.WithCancel(t.Context())
		var shown sync.WaitGroup
		shown.Go(func() { fleet.New(q).ShowDoor(ctx, zerolog.Nop(), func() fleet.Door { return d }) })
		defer func() { hide(); shown.Wait() }()
	}
	require.Eventually(t, func() bool {
		v, err := fleet.New(q).Look(t.Context())
		return err == nil && len(v.Doors()) == 3
	}, time.Minute, 10*time.Millisecond)
	_, out = run("fleet")
	require.Contains(t, out, `
DOOR                SINCE (UTC)  KIND      RATE/S   BEHIND  VERSION
g1                  03-01 12:00  gateway        0        -  v1
n1                  03-01 12:00  notify         0       12  v1
  no answer within 15s
n2                  03-01 12:00  notify     waits        -  v1
`)

	before := f.Resumed
	code, out = run("resume")
	require.Zero(t, code, out)
	code, out = run("limit default")
	require.Zero(t, code, out)
	code, out = run("limit")
	require.Zero(t, code, out)
	require.Equal(t, "The fleet's limit: by the workers' settings (ORDERPOST_RATE_LIMIT); w0: 25/s.\n", out)
	f, err = fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	require.Nil(t, f.Hold)
	require.Nil(t, f.Limit)
	require.NotEqual(t, before, f.Resumed)

	for _, bad := range []string{"limit 5/s 6/s", "limit fast", "limit 0/s", "limit 5/d", "limit NaN", "hold --for -3s", "resume now"} {
		code, out = run(bad)
		require.Equal(t, cli.ExitUsage, code, "%s: %s", bad, out)
	}
}
