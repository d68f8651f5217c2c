package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/testing/netcut"
)

// page is an answer of lines.
type page struct {
	got  []outcome
	next uint64
}

func outcomes(t testing.TB, text string) (p page) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if i == len(lines)-1 {
			var n next
			require.NoError(t, json.Unmarshal([]byte(line), &n), text)
			p.next = n.Next
			return p
		}
		var o outcome
		require.NoError(t, json.Unmarshal([]byte(line), &o), text)
		p.got = append(p.got, o)
	}
	return p
}

// bring stores and settles orders.
func (r *rig) bring(numbers ...string) {
	r.t.Helper()
	for _, no := range numbers {
		a := r.do("POST", "/v1/orders", body(no))
		require.Equal(r.t, http.StatusCreated, a.status, a.text)
	}
	r.settle(len(numbers))
}

// TestLinesOfOutcomes come page by page, and a poll waits for the next one.
func TestLinesOfOutcomes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.Equal(t, page{}, outcomes(t, r.do("GET", "/v1/outcomes", "").text), "there are none")
	r.bring("A", "B", "C")
	var all []string
	p := page{}
	for range 3 {
		p = outcomes(t, r.do("GET", fmt.Sprintf("/v1/outcomes?limit=1&after=%d", p.next), "").text)
		require.Len(t, p.got, 1)
		all = append(all, p.got[0].OrderNo)
	}
	require.ElementsMatch(t, []string{"A", "B", "C"}, all)
	require.Equal(t, page{next: p.next}, outcomes(t, r.do("GET", "/v1/outcomes?after=end", "").text))

	polled := make(chan answer, 1)
	go func() {
		a, err := r.try("GET", fmt.Sprintf("/v1/outcomes?after=%d&wait=5m", p.next), nil)
		if err != nil {
			a.text = err.Error()
		}
		polled <- a
	}()
	require.Eventually(t, func() bool { return r.open("outcomes") == 1 }, patience, time.Millisecond)
	r.bring("D")
	got := outcomes(t, (<-polled).text).got
	require.Len(t, got, 1)
	require.Equal(t, "D", got[0].OrderNo)
	gone := r.do("GET", "/v1/outcomes?after=99", "")
	require.Equal(t, http.StatusGone, gone.status, gone.text)
}

// events follows the feed of events until it has n of them.
func (r *rig) events(n int, lastID string) (orders []string, last string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", r.URL()+"/v1/outcomes", nil)
	require.NoError(r.t, err)
	req.Header.Set("Accept", mediaEvents)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(r.t, mediaEvents, resp.Header.Get("Content-Type"))
	for lines := bufio.NewScanner(resp.Body); len(orders) < n && lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var o outcome
			require.NoError(r.t, json.Unmarshal([]byte(data), &o))
			orders = append(orders, o.OrderNo)
		}
	}
	return orders, last
}

// TestEvents follow, and go on where a client left.
func TestEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bring("A", "B")
	seen, last := r.events(1, "")
	more, _ := r.events(1, last)
	require.ElementsMatch(t, []string{"A", "B"}, append(seen, more...))
	followed := make(chan []string, 1)
	go func() { got, _ := r.events(3, ""); followed <- got }()
	require.Eventually(t, func() bool { return r.open("outcomes") == 1 }, patience, time.Millisecond)
	r.bring("C")
	require.Equal(t, "C", (<-followed)[2])
}

// TestBeats are comments, without an empty line that clients take for an event, or tell a client
// that sees none of the outcomes how far it is.
func TestBeats(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Read}, "desk": {Submit, ReadAll}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients, o.beatEvery = path, 5*time.Millisecond })
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.URL()+"/v1/outcomes", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", mediaEvents)
	req.Header.Set("Authorization", bearer("shop"))
	resp, err := r.client.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	require.Equal(t, "retry: 2000", lines.Text())
	for range 3 {
		require.True(t, lines.Scan())
		require.Equal(t, ": alive", lines.Text())
	}
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A"), "Authorization", bearer("desk")).status)
	r.settle(1)
	var told []string
	for len(told) < 4 && lines.Scan() {
		if lines.Text() != ": alive" {
			told = append(told, lines.Text())
		}
	}
	require.Equal(t, []string{"id: 1", "event: position", `data: {"next":1}`, ""}, told)
}

// TestOutcomesOfOthersArePassedOver to the end of what there is, however long that takes: an
// answer that ends before it looks like the end. Those that come later end no wait.
func TestOutcomesOfOthersArePassedOver(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	reads := &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if slow.Load() && subject == "$JS.API.DIRECT.GET.ORDERS_RESULTS" {
			time.Sleep(firstLine * 7 / 10) // a page takes less than firstLine, and all of them more
		}
		return netcut.Pass
	}}
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read}, "rival": {Read}, "desk": {Submit, ReadAll}})
	r := newRigOver(t, reads, func(o *Options, _ *queue.Config) { o.Clients = path })
	as := func(name, query string) answer {
		return r.do("GET", "/v1/outcomes?"+query, "", "Authorization", bearer(name))
	}
	var lines strings.Builder
	const others = 600 // several pages
	for i := range others {
		lines.WriteString(body(fmt.Sprint("F-", i)) + "\n")
	}
	require.Equal(t, http.StatusOK, r.do("POST", "/v1/orders", lines.String(), "Content-Type", mediaLines, "Authorization", bearer("desk")).status)
	r.settle(others)
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A"), "Authorization", bearer("shop")).status)
	r.settle(1)

	slow.Store(true)
	end := outcomes(t, as("shop", "after=0").text)
	require.Len(t, end.got, 1)
	require.GreaterOrEqual(t, end.next, uint64(others))
	require.Equal(t, page{next: end.next}, outcomes(t, as("rival", "after=0").text), "it ends once it has passed over all")
	require.Equal(t, end, outcomes(t, as("shop", "after=0&wait=1ms").text))
	slow.Store(false)

	waited := make(chan string, 1)
	go func() { waited <- as("shop", fmt.Sprintf("after=%d&wait=5m", end.next)).text }()
	require.Eventually(t, func() bool { return r.open("outcomes") == 1 }, patience, time.Millisecond)
	for _, name := range []string{"desk", "shop"} {
		require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("of-"+name), "Authorization", bearer(name)).status)
		r.settle(1)
	}
	got := outcomes(t, <-waited).got
	require.Len(t, got, 1)
	require.Equal(t, "of-shop", got[0].OrderNo)
}
