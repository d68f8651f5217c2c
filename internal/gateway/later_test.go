package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// TestLongWaits go on without net/http: their answers are whole, and say that the
// connection is closed. A client that leaves gives its slot back.
func TestLongWaits(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.parkAfter, o.Clients = time.Millisecond, path })
	auth := "Authorization: " + bearer("shop") + "\n"
	asked := 0
	get := func(path, headers string) *raw {
		asked++
		return r.dial().send("GET %s HTTP/1.1\nHost: localhost\n"+auth+headers+"\n", path)
	}
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A"), "Authorization", bearer("shop"), headerKey, "1").status)
	parked := func(open int) {
		t.Helper()
		require.Eventually(t, func() bool { return r.waits() == asked && int(r.open("order")+r.open("outcomes")) == open }, patience, time.Millisecond)
	}
	const poll = "/v1/orders?order_no=A&submission=1&wait=5m"
	leaves := get(poll, "")
	parked(1)
	require.NoError(t, leaves.Close())
	parked(0)
	impatient := get(poll, "")
	parked(1)
	require.NoError(t, impatient.send("GET /livez HTTP/1.1\n").Close())
	parked(0)

	short := get("/v1/orders?order_no=A&submission=1&wait=50ms", "")
	a := short.answer()
	require.Equal(t, "pending", a.outcome(t).State)
	require.NotEmpty(t, a.header.Get("Date"))
	short.closed()

	feed := get("/v1/outcomes", "Accept: text/event-stream\n")
	one, lines := get(poll, ""), get("/v1/outcomes?after=end&wait=5m", "")
	parked(3)
	r.settle(1)
	a = one.answer()
	require.Equal(t, "accepted", a.outcome(t).Outcome)
	one.closed()
	page := outcomes(t, lines.answer().text)
	require.Len(t, page.got, 1)
	lines.closed()
	resp, err := http.ReadResponse(feed.in, nil)
	require.NoError(t, err)
	require.Equal(t, mediaEvents, resp.Header.Get("Content-Type"))
	in := bufio.NewScanner(resp.Body)
	for in.Scan() && !strings.HasPrefix(in.Text(), "data: ") {
	}
	require.Contains(t, in.Text(), `"order_no":"A"`)
	require.NoError(t, resp.Body.Close())
	parked(1)

	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("B"), "Authorization", bearer("shop"), headerKey, "1b").status)
	last := get("/v1/orders?order_no=B&submission=1b&wait=5m", "")
	parked(2)
	r.Stop()
	require.Equal(t, "pending", last.answer().outcome(t).State, "it has its answer when the door closes")
	feed.closed()
	require.Zero(t, r.crowd.open.Load())
}

// TestALongWaitOutlivesTheBroker: it goes on when the broker is back.
func TestALongWaitOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	w := &watched{begun: make(chan struct{}, 1)}
	r := newRig(t, func(o *Options, cfg *queue.Config) {
		o.Door, o.parkAfter, cfg.BrokerWait = w, time.Millisecond, time.Millisecond
	})
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A")).status)
	c := r.dial().send("GET /v1/orders?order_no=A&wait=5m HTTP/1.1\nHost: localhost\n\n")
	<-w.begun
	r.broker.Stop()
	require.Eventually(t, func() bool { return r.do("GET", "/v1/orders?order_no=A", "").status == http.StatusServiceUnavailable }, patience, time.Millisecond)
	r.broker.Restart(t)
	require.Equal(t, 1, r.stored())
	r.settle(1)
	require.Equal(t, "accepted", c.answer().outcome(t).Outcome)
}

// watched is the rig's door. It tells when a wait goes on without net/http.
type watched struct {
	Door
	begun chan struct{}
}

func (w *watched) over(d Door) { w.Door = d }

func (w *watched) Watch(ctx context.Context, orderNo string, changed func()) (stop func()) {
	w.begun <- struct{}{}
	return w.Door.Watch(ctx, orderNo, changed)
}

// TestAFlushOfABareAnswerWritesNothingTwice: ten thousand feeds are told each outcome, so a system call that
// carries nothing counts.
func TestAFlushOfABareAnswerWritesNothingTwice(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, client) }()
	c := &countedWrites{Conn: server}
	b := &bare{conn: c}
	require.NoError(t, b.FlushError())
	require.Equal(t, 1, c.n, "the header goes out though no part of the body is there")
	for range 3 {
		_, err := b.Write([]byte("part"))
		require.NoError(t, err)
		require.NoError(t, b.FlushError())
	}
	require.Equal(t, 4, c.n)
	require.NoError(t, b.conn.Close())
	require.NoError(t, client.Close())
}

// countedWrites counts the writes to a connection.
type countedWrites struct {
	net.Conn
	n int
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n++
	return c.Conn.Write(p)
}
