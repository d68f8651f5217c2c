package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

var (
	api     = Identity{URL: "https://api.example.com", Label: "main"}
	unnamed = Identity{URL: "https://api.example.com"}
	trial   = Identity{URL: "http://127.0.0.1:8089"}
)

func identityError(t *testing.T, err error) *IdentityError {
	t.Helper()
	var e *IdentityError
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "nothing was sent")
	require.ErrorContains(t, err, "worker adopt")
	require.ErrorContains(t, err, "ORDERPOST_DATA_DIR")
	return e
}

func claimed(t *testing.T, q *node) *Claim {
	t.Helper()
	c, err := q.Claimed(t.Context())
	require.NoError(t, err)
	return c
}

func TestAFleetPostsToOneAPI(t *testing.T) {
	s := startBroker(t)
	a, b := open(t, s, "a"), open(t, s, "b")
	require.NoError(t, a.claim(t, api))
	a.publish(t, "A-1")
	require.NoError(t, b.claim(t, api))
	for _, spelling := range []string{"https://api.example.com/", "HTTPS://API.example.com:443"} {
		require.NoError(t, b.claim(t, Identity{URL: spelling, Label: "main"}), "the same address")
	}
	for _, other := range []Identity{{URL: api.URL, Label: "second"}, unnamed, trial} {
		e := identityError(t, b.claim(t, other))
		require.Equal(t, api, e.Have)
		require.ErrorContains(t, e, "1 pending orders, 0 results and 0 dead letters")
	}
	require.Equal(t, api, claimed(t, a).Identity)
}

// Nothing was ever stored for the former API: a mistyped address, or a label
// that is set later, needs nobody's help.
func TestAnAPIThatNothingWasStoredForIsTakenOver(t *testing.T) {
	q := open(t, startBroker(t), "a")
	for _, next := range []Identity{{URL: "https://api.exmaple.com"}, unnamed, api, trial} {
		require.NoError(t, q.claim(t, next))
		require.Equal(t, next, claimed(t, q).Identity)
	}
	require.Equal(t, api, *claimed(t, q).From)
}

// Whatever is stored is of an account: an intent, an outcome, a note, a letter.
func TestWhatIsStoredKeepsItsAPI(t *testing.T) {
	q := open(t, startBroker(t), "a")
	require.NoError(t, q.claim(t, trial))
	q.publish(t, "A-1")
	identityError(t, q.claim(t, unnamed))
	d := q.pull(t)
	accepted := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1}}
	_, err := q.Worker.Settle(t.Context(), d, &accepted, order.Decide(&accepted, order.Facts{}))
	require.NoError(t, err)
	d.Release()
	require.Eventually(t, func() bool { c, err := q.Census.Count(t.Context()); return err == nil && c.Pending == 0 }, time.Minute, 5*time.Millisecond)
	e := identityError(t, q.claim(t, unnamed))
	require.EqualValues(t, 1, e.Counts.Results)
}

// The label names the account, so that its address may change: pods of both
// addresses start in a rolling update, in any order.
func TestAnAccountWithALabelMayMove(t *testing.T) {
	s := startBroker(t)
	a, b := open(t, s, "a"), open(t, s, "b")
	require.NoError(t, a.claim(t, api))
	a.publish(t, "A-1")
	moved := Identity{URL: "https://eu.api.example.com", Label: api.Label}
	for range 2 {
		require.NoError(t, b.claim(t, moved))
		require.Equal(t, moved, claimed(t, a).Identity)
		require.NoError(t, a.claim(t, api))
	}
	require.False(t, api.Contradicts(moved), "running workers go on")
}

func TestAWorkerThatLivesKeepsItsAPI(t *testing.T) {
	s := startBroker(t)
	a, b := open(t, s, "a"), open(t, s, "b")
	require.NoError(t, a.claim(t, trial))
	stop := a.beats(t)
	e := identityError(t, b.claim(t, api))
	require.Equal(t, "a", e.Present)
	stop()
	// The entry of one that was killed is still there.
	require.NoError(t, b.claim(t, api))
}

func TestATakeoverIsRecorded(t *testing.T) {
	q := open(t, startBroker(t), "a")
	_, err := q.Claimed(t.Context())
	require.ErrorIs(t, err, ErrNoIdentity)
	require.NoError(t, q.claim(t, trial))
	q.publish(t, "A-1")
	have, at := claimed(t, q), time.Now().UTC()
	takeover := Takeover{By: "anna", At: at, From: have.Identity, To: Identity{URL: api.URL + "/", Label: api.Label}, Counts: queue.Counts{Pending: 1}}
	require.NoError(t, q.TakeOver(t.Context(), have, takeover))
	now := claimed(t, q)
	require.Equal(t, api, now.Identity)
	require.Equal(t, "anna", now.By)
	require.Equal(t, trial, *now.From)
	require.NoError(t, q.claim(t, api))
	takeover.At = at.Add(1)
	require.ErrorIs(t, q.TakeOver(t.Context(), have, takeover), ErrClaimChanged)

	var records []string
	require.NoError(t, q.Bucket().Walk(t.Context(), takeoverPrefix, func(e queue.Entry) error {
		records = append(records, string(e.Value))
		return nil
	}))
	require.Len(t, records, 1)
	require.Contains(t, records[0], `"by":"anna"`)
	require.Contains(t, records[0], `"from":{"url":"http://127.0.0.1:8089"},"to":{"url":"https://api.example.com","label":"main"}`)
}

func TestWhatContradictsARunningWorker(t *testing.T) {
	for name, c := range map[string]struct {
		mine, fleet Identity
		contradicts bool
	}{
		"the same":           {api, api, false},
		"another address":    {unnamed, trial, true},
		"got a label":        {unnamed, api, false},
		"lost its label":     {api, unnamed, false},
		"another label":      {api, Identity{URL: api.URL, Label: "second"}, true},
		"moved":              {api, Identity{URL: trial.URL, Label: api.Label}, false},
		"label and address":  {unnamed, Identity{URL: trial.URL, Label: "main"}, true},
		"spelt in other way": {unnamed, Identity{URL: api.URL + ":443/"}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.contradicts, c.mine.Contradicts(c.fleet)) })
	}
}
