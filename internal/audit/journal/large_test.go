package journal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// The role producer may write to the journal. Its stream takes no entries that make
// reading it slow.
func TestLargeEntriesKeepNobodyFromReading(t *testing.T) {
	p := newPlace(t)
	e := Entry{ID: "flood", Step: StepIntention, At: time.Now(), About: About{Kind: Import, Note: strings.Repeat("x", 1<<20)}}
	data, err := json.Marshal(e)
	require.NoError(t, err)
	_, err = p.js.Publish(t.Context(), "orders.journal."+e.subject(), data)
	require.ErrorContains(t, err, "message size exceeds maximum allowed")

	require.ErrorContains(t, putLarge(t, p), "message size exceeds maximum allowed", "a value of the bucket")
}

// putLarge writes 2 MiB into the bucket.
func putLarge(t *testing.T, p *place) error {
	t.Helper()
	kv, err := p.js.KeyValue(t.Context(), "ORDERPOST")
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "import.x", bytes.Repeat([]byte("x"), 2<<20))
	return err
}

// Our own entries are shortened, not refused.
func TestALongActIsShortened(t *testing.T) {
	p := newPlace(t)
	long := strings.Repeat("y", queue.MaxJournalEntry)
	act, err := New(p.q, "test", "v1").Begin(t.Context(), Intention{About: About{Kind: Export, Actor: Actor{Name: "anna"}, Filter: map[string][]string{"reason": {long}}}})
	require.NoError(t, err)
	require.NoError(t, act.End(t.Context(), Result{End: Done}))
	page, err := Read(t.Context(), p.q, Query{})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Contains(t, page.Items[0].Details["shortened"], "too long for the journal")
}
