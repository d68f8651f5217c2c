package gateway

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/patient"
)

// told is one line of the answer to a stream.
type told struct {
	Line, Status int
	OrderNo      string `json:"order_no"`
	Submission   string
	Type, Where  string
}

func toldLines(t testing.TB, in io.Reader) (out []told) {
	t.Helper()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var l told
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l), lines.Text())
		out = append(out, l)
	}
	return out
}

// TestManyOrdersInOneRequest: each line is answered in order, a wrong one too, and the
// stream can be sent again.
func TestManyOrdersInOneRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var text strings.Builder
	const n = 3000
	for i := range n {
		switch i {
		case 7:
			text.WriteString("\n")
		case 8:
			text.WriteString("{]\r\n")
		case 9:
			text.WriteString(body("A-1") + "\r\n") // a line that was there
		default:
			text.WriteString(body(fmt.Sprintf("A-%d", i)) + "\n")
		}
	}
	for round, want := range []int{http.StatusCreated, http.StatusOK} {
		a := r.do("POST", "/v1/orders", text.String(), "Content-Type", mediaLines)
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, mediaLines, a.header.Get("Content-Type"))
		lines := toldLines(t, strings.NewReader(a.text))
		require.Len(t, lines, n-1, "an empty line has no answer")
		for i, l := range lines {
			row := i + 1
			if i >= 7 {
				row++
			}
			require.Equal(t, row, l.Line)
			switch row {
			case 9:
				require.Equal(t, http.StatusBadRequest, l.Status)
			case 10:
				require.Equal(t, []any{http.StatusOK, "A-1"}, []any{l.Status, l.OrderNo})
			default:
				require.Equal(t, want, l.Status, "round %d: %+v", round, l)
				require.Equal(t, fmt.Sprintf("A-%d", row-1), l.OrderNo)
			}
		}
	}
	require.Equal(t, n-3, r.stored())
	require.Empty(t, r.do("POST", "/v1/orders", "", "Content-Type", mediaLines).text)
}

// stream is a POST whose lines a test sends one by one.
type stream struct {
	t    testing.TB
	in   *io.PipeWriter
	out  *bufio.Scanner
	resp *http.Response
	sent chan error
}

func (r *rig) stream(headers ...string) *stream {
	r.t.Helper()
	reader, writer := io.Pipe()
	s := &stream{t: r.t, in: writer, sent: make(chan error, 1)}
	req, err := http.NewRequestWithContext(r.t.Context(), "POST", r.URL()+"/v1/orders", reader)
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", mediaLines)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	go func() {
		var err error
		s.resp, err = r.client.Do(req) //nolint:bodyclose // by the test's end
		s.sent <- err
	}()
	r.t.Cleanup(func() { _ = writer.CloseWithError(errors.New("the test is over")) })
	return s
}

// line sends a line and returns its answer.
func (s *stream) line(text string) (l told) {
	s.t.Helper()
	_, err := io.WriteString(s.in, text+"\n")
	require.NoError(s.t, err)
	return s.next()
}

func (s *stream) next() (l told) {
	s.t.Helper()
	if s.out == nil {
		require.NoError(s.t, <-s.sent)
		s.out = bufio.NewScanner(s.resp.Body)
		s.t.Cleanup(func() { _ = s.resp.Body.Close() })
	}
	require.True(s.t, s.out.Scan(), "the answer ended: %v", s.out.Err())
	require.NoError(s.t, json.Unmarshal(s.out.Bytes(), &l), s.out.Text())
	return l
}

// TestALineIsAnsweredBeforeTheNext: a client may wait for each answer. A line that is too
// large, or does not arrive, ends the stream.
func TestALineIsAnsweredBeforeTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) { o.bodyTimeout = time.Second })
	s := r.stream(headerKey, "b1")
	for i := 1; i <= 3; i++ {
		l := s.line(body(fmt.Sprintf("B-%d", i)))
		require.Equal(t, told{Line: i, Status: http.StatusCreated, OrderNo: fmt.Sprintf("B-%d", i), Submission: fmt.Sprintf("local:b1:%d", i)}, l)
	}
	_, err := io.WriteString(s.in, `{"order_no":`)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestTimeout, s.next().Status)
	require.False(t, s.out.Scan())

	s = r.stream()
	require.Equal(t, http.StatusCreated, s.line(body("C")).Status)
	go func() { _, _ = io.WriteString(s.in, strings.Repeat("x", 2<<20)) }()
	require.Equal(t, http.StatusRequestEntityTooLarge, s.next().Status)
	require.False(t, s.out.Scan())
}

// TestClosingTheDoor: what is under way is finished, waits end, and nothing new begins.
func TestClosingTheDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.stream()
	require.Equal(t, http.StatusCreated, s.line(body("A")).Status)
	polled, followed := make(chan answer, 1), make(chan answer, 1)
	get := func(to chan answer, path string, headers ...string) {
		a, err := r.try("GET", path, nil, headers...)
		if err != nil {
			a.text = err.Error()
		}
		to <- a
	}
	go get(polled, "/v1/orders?order_no=A&wait=5m")
	go get(followed, "/v1/outcomes", "Accept", mediaEvents)
	require.Eventually(t, func() bool { return r.open("order")+r.open("outcomes") == 2 }, patience, time.Millisecond)
	began := time.Now()
	r.Stop()
	require.Less(t, time.Since(began), r.DrainTimeout)
	require.Equal(t, "pending", (<-polled).outcome(t).State)
	require.Equal(t, http.StatusOK, (<-followed).status)
	l := s.next()
	require.Equal(t, typePrefix+draining.name, l.Type)
	require.False(t, s.out.Scan())
	require.Equal(t, 1, r.stored())
}

// TestAnUnconfirmedOrder may be stored: the same request finds out, and stores it once.
func TestAnUnconfirmedOrder(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	cut := &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if lose.Load() && strings.HasPrefix(subject, "orders.new.") {
			return netcut.After
		}
		return netcut.Pass
	}}
	r := newRigOver(t, cut, func(o *Options, cfg *queue.Config) { o.storeTimeout, cfg.BrokerWait = time.Second, 0 })
	lose.Store(true)
	a := r.do("POST", "/v1/orders", body("A"))
	require.Equal(t, http.StatusGatewayTimeout, a.status, a.text)
	require.Equal(t, "unconfirmed", a.problem(t).name())
	require.NotEmpty(t, a.header.Get("Retry-After"))
	lose.Store(false)
	require.Eventually(t, func() bool {
		a = r.do("POST", "/v1/orders", body("A"))
		return a.status == http.StatusOK
	}, patience, 10*time.Millisecond)
	require.Equal(t, 1, r.stored())
}

// TestABrokerThatDoesNotAnswer a look-up is told apart from one that is away.
func TestABrokerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	var relay *patient.Relay
	r := newRig(t, func(o *Options, cfg *queue.Config) {
		relay = patient.NewRelay(t, strings.TrimPrefix(cfg.URL, "nats://"))
		cfg.URL, o.lookTimeout = "nats://"+relay.Addr().String(), 100*time.Millisecond
	})
	relay.Swallow()
	for _, method := range []string{"GET", "DELETE"} {
		a := r.do(method, "/v1/orders?order_no=A", "")
		require.Equal(t, http.StatusGatewayTimeout, a.status, a.text)
		require.Equal(t, unansweredLook.name, a.problem(t).name())
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
}

// TestEmptyLinesTakeFromTheRate: a flood of them would take the door's time from other clients.
func TestEmptyLinesTakeFromTheRate(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit}}, func(e *Entry) { e.Rate = 1 })
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	pace := r.clients.find(strings.TrimPrefix(bearer("shop"), "Bearer ")).limits.pace
	require.Greater(t, pace.Tokens(), 5.0)
	c := r.dial().send("POST /v1/orders HTTP/1.1\nHost: localhost\nAuthorization: %s\nContent-Type: application/x-ndjson\nTransfer-Encoding: chunked\n\n", bearer("shop"))
	_, err := io.WriteString(c, "40\r\n"+strings.Repeat("\n", 0x40)+"\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return pace.Tokens() < 1 }, patience, time.Millisecond)
}
