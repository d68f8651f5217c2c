package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/gateway/door"
	"orderpost/internal/queue"
)

// raw is a connection on which a test writes what no client would.
type raw struct {
	net.Conn
	in *bufio.Reader
	t  testing.TB
}

func (r *rig) dial() *raw {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	require.NoError(r.t, c.SetDeadline(time.Now().Add(patience)))
	return &raw{c, bufio.NewReader(c), r.t}
}

func (c *raw) send(format string, args ...any) *raw {
	c.t.Helper()
	_, err := fmt.Fprintf(c, strings.ReplaceAll(format, "\n", "\r\n"), args...)
	require.NoError(c.t, err)
	return c
}

func (c *raw) answer() answer {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	require.NoError(c.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// closed waits until the door closes the connection.
func (c *raw) closed() {
	c.t.Helper()
	_, err := io.Copy(io.Discard, c.in)
	if ne, timeout := err.(net.Error); timeout && ne.Timeout() { //nolint:errorlint // a net.Conn's own
		c.t.Fatal("the door leaves the connection open")
	}
}

const post = "POST /v1/orders HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"

// TestBodiesThatDoNotArrive are given up after a while, broken off, or refused at their
// limit. None stores anything, and none keeps its connection.
func TestBodiesThatDoNotArrive(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) {
		o.bodyTimeout, o.Log = 300*time.Millisecond, zerolog.New(io.Discard)
	})
	cases := map[string]struct {
		send string
		want kind
	}{
		"half of it":              {post + "Content-Length: 100\n\n{\"order_no\":", slowBody},
		"nothing of it":           {post + "Content-Length: 100\n\n", slowBody},
		"half a chunk":            {post + "Transfer-Encoding: chunked\n\n40\n{\"order_no\"", slowBody},
		"no chunk":                {post + "Transfer-Encoding: chunked\n\nzz\n{}\n0\n\n", badRequest},
		"1 GB, said before":       {post + "Content-Length: 1073741824\n\n", tooLarge},
		"1 GB, waiting for 100":   {post + "Expect: 100-continue\nContent-Length: 1073741824\n\n", tooLarge},
		"more than it may, mute":  {post + "Transfer-Encoding: chunked\n\n100001\n" + strings.Repeat("x", 1<<20+1), tooLarge},
		"nothing, and that is it": {post + "Content-Length: 0\n\n", invalidJSON},
	}
	t.Run("each", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conn := r.dial()
				conn.t = t
				a := conn.send("%s", strings.ReplaceAll(c.send, "\n", "\r\n")).answer()
				require.Equal(t, c.want.status, a.status, a.text)
				require.Equal(t, c.want.name, a.problem(t).name(), a.text)
				if c.want != invalidJSON {
					conn.closed()
				}
			})
		}
	})
	require.Zero(t, r.stored())
}

// TestABodyThatNobodyAskedFor is not waited for, nor read as another request.
func TestABodyThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) {
		o.bodyTimeout, o.Log = 300*time.Millisecond, zerolog.New(io.Discard)
	})
	long := make([]string, 40)
	for i := range long {
		long[i] = fmt.Sprintf(`{"order_no":"L-%d","timeout":30}`, i)
	}
	require.Equal(t, http.StatusOK, r.do("POST", "/v1/orders", strings.Join(long, "\n"), "Content-Type", mediaLines).status)
	r.settle(len(long))
	const next = "GET /livez HTTP/1.1\nHost: x\n\n"
	for name, send := range map[string]string{
		"with a length":        "GET /livez HTTP/1.1\nHost: x\nContent-Length: 1\n\n",
		"in chunks":            "GET /openapi.yaml HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n",
		"of a long answer":     "GET /v1/outcomes HTTP/1.1\nHost: localhost\nContent-Length: 1\n\n",
		"behind a broken line": "POST /v1/orders HTTP/1.1\nHost: localhost\nContent-Type: application/x-ndjson\nTransfer-Encoding: chunked\n\nzz\n" + next,
		"behind a slow line":   "POST /v1/orders HTTP/1.1\nHost: localhost\nContent-Type: application/x-ndjson\nContent-Length: 500\n\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial()
			conn.t = t
			require.Equal(t, http.StatusOK, conn.send("%s", strings.ReplaceAll(send, "\n", "\r\n")).answer().status)
			_, _ = conn.Write([]byte(strings.ReplaceAll(next, "\n", "\r\n"))) // more of the body, or the connection is closed by now
			more, _ := io.ReadAll(conn.in)                                    // until it is closed
			require.Empty(t, string(more))
		})
	}
}

// TestRefusalsAreHeard by a client that sends all of a large body before it reads, and at
// once by one that waits for 100, or whose body has no end.
func TestRefusalsAreHeard(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit}, "reader": {Read}, "slow": {Submit}}, func(e *Entry) {
		if e.Name == "slow" {
			e.InFlight = 1
		}
	})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients, o.bodyTimeout = path, 10*patience })
	const lines = "application/x-ndjson"
	under := r.dial().send("POST /v1/orders HTTP/1.1\nHost: localhost\nAuthorization: %s\nContent-Type: %s\nTransfer-Encoding: chunked\n\n%x\n%s\n\n",
		bearer("slow"), lines, len(body("U")+"\r\n"), body("U")) // it keeps the only slot
	resp, err := http.ReadResponse(under.in, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })

	cases := map[string]struct {
		method, path, client, media, header string
		want                                kind
	}{
		"nobody":       {"POST", "/v1/orders", "nobody", mediaJSON, "", unauthorized},
		"no scope":     {"POST", "/v1/orders", "reader", mediaJSON, "", forbidden},
		"media":        {"POST", "/v1/orders", "shop", "text/html", "", mediaType},
		"no slot":      {"POST", "/v1/orders", "slow", mediaJSON, "", tooMany},
		"bad key":      {"POST", "/v1/orders", "shop", mediaJSON, "Idempotency-Key: a b\n", badRequest},
		"bad lane":     {"POST", "/v1/orders", "shop", lines, "Order-Lane: a b\n", invalidOrder},
		"too large":    {"POST", "/v1/orders", "shop", mediaJSON, "", tooLarge},
		"long line":    {"POST", "/v1/orders", "shop", lines, "", tooLarge},
		"other method": {"PUT", "/v1/orders", "shop", mediaJSON, "", badMethod},
		"other path":   {"POST", "/v2/orders", "shop", mediaJSON, "", notFound},
	}
	const size = 2 << 20
	whole := strings.Repeat("x", size)
	framings := map[string]string{
		"whole":         fmt.Sprintf("Content-Length: %d\n\n%s", size, whole),
		"in chunks":     fmt.Sprintf("Transfer-Encoding: chunked\n\n%x\n%s\n0\n\n", size, whole),
		"waits for 100": fmt.Sprintf("Expect: 100-continue\nContent-Length: %d\n\n", size),
		"has no end":    fmt.Sprintf("Transfer-Encoding: chunked\n\n%x\n%s\n", size, whole),
	}
	heard := func(t *testing.T, request string, want kind) {
		t.Helper()
		c := r.dial()
		require.NoError(t, c.Conn.(*net.TCPConn).SetWriteBuffer(64<<10)) // the door must read it
		c.t = t
		began := time.Now()
		resp, err := http.ReadResponse(c.send(request).in, nil)
		require.NoError(t, err)
		answer, err := bufio.NewReader(resp.Body).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, answer, `"urn:orderpost:problem:`+want.name+`"`)
		require.Less(t, time.Since(began), restTimeout, "it is told only when the door has waited for the rest")
	}
	t.Run("each", func(t *testing.T) {
		for name, c := range cases {
			for framing, rest := range framings {
				if framing == "waits for 100" && name == "long line" {
					continue // it is told to send
				}
				t.Run(name+" "+framing, func(t *testing.T) {
					t.Parallel()
					heard(t, fmt.Sprintf("%s %s HTTP/1.1\nHost: localhost\nAuthorization: %s\nContent-Type: %s\n%s%s", c.method, c.path, bearer(c.client), c.media, c.header, rest), c.want)
				})
			}
		}
	})
	require.Equal(t, 1, r.stored(), "only the order of the client that has one under way")

	r.stopWaits() // the door begins to drain
	for framing, rest := range framings {
		t.Run("draining "+framing, func(t *testing.T) { heard(t, post+rest, draining) })
	}
}

// TestAShortRefusedBodyKeepsItsConnection, so that a client that is refused need not
// connect again.
func TestAShortRefusedBodyKeepsItsConnection(t *testing.T) {
	t.Parallel()
	c := newRig(t).dial()
	for range 3 {
		a := c.send("POST /v1/orders HTTP/1.1\nHost: localhost\nContent-Type: text/html\nContent-Length: 100000\n\n%s", strings.Repeat("x", 100_000)).answer()
		require.Equal(t, http.StatusUnsupportedMediaType, a.status)
	}
}

// TestAPanic is the failure of one request: it is answered, logged, and ends nothing else. An answer
// that has begun is cut off.
func TestAPanic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.files = &panicking{r.files}
	c := r.dial()
	for range 2 {
		a := c.send("GET /v1/imports/fault HTTP/1.1\nHost: localhost\n\n").answer()
		require.Equal(t, http.StatusInternalServerError, a.status, a.text)
		require.Equal(t, "internal", a.problem(t).name())
		require.NotContains(t, a.text, "a fault", "the client is told what is inside")
	}
	require.Contains(t, r.log.String(), "panic: a fault")
	require.Contains(t, r.log.String(), "(*call).importState", "the log says where")
	_, err := r.try("GET", "/v1/imports/1/results", nil)
	require.ErrorContains(t, err, "EOF", "it looks whole")
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A")).status)
}

// panicking is the rig's folder with a fault.
type panicking struct{ door.Files }

func (panicking) Look(id string) (door.Import, error) {
	if id == "fault" {
		panic("a fault")
	}
	return door.Import{ID: id, By: "client local"}, nil
}

func (panicking) Results(_ context.Context, _ string, w io.Writer) error {
	_, _ = io.WriteString(w, "order_no,outcome\n")
	panic("a fault")
}

// TestAGigabyteIsCutOff: a client that sends and sends is stopped at its limit.
func TestAGigabyteIsCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.dial().send(post + "Transfer-Encoding: chunked\n\n40000000\n")
	sent, part := 0, make([]byte, 1<<20)
	for sent < 1<<30 {
		n, err := c.Write(part)
		if sent += n; err != nil {
			break
		}
	}
	require.Less(t, sent, 64<<20, "the door reads on")
}

// TestAClientThatDoesNotRead loses its connection.
func TestAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) { o.writeTimeout = 200 * time.Millisecond })
	c := r.dial()
	go func() {
		for {
			if _, err := io.WriteString(c, "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return r.connections.open.Load() == 1 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return r.connections.open.Load() == 0 }, patience, 10*time.Millisecond)
}

// TestTooManyConnections: connections beyond the bound are told so and closed, and those within it
// are served meanwhile.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	const most = 50
	r := newRig(t, func(o *Options, _ *queue.Config) { o.mostConns, o.minIdle = most, time.Hour })
	inside := r.dial().send("GET /livez HTTP/1.1\nHost: localhost\n\n")
	require.Equal(t, http.StatusOK, inside.answer().status)
	for range most - 1 {
		r.dial()
	}
	require.Eventually(t, func() bool { return r.connections.open.Load() == most }, patience, time.Millisecond)
	told, cut := 0, 0
	var outside []*raw
	for range 2000 {
		outside = append(outside, r.dial())
	}
	for _, c := range outside {
		_, err := io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err == nil {
			_, err = c.in.Peek(1)
		}
		if err != nil {
			cut++
			continue
		}
		a := c.answer()
		require.Equal(t, "too-many-connections", a.problem(t).name())
		require.NotEmpty(t, a.header.Get("Retry-After"))
		c.closed()
		told++
	}
	require.GreaterOrEqual(t, told, mostRefused)
	require.Equal(t, 2000, told+cut)
	require.Equal(t, http.StatusOK, inside.send("GET /livez HTTP/1.1\nHost: localhost\n\n").answer().status)
}

// TestIdleConnectionsMakeRoom: a client without a token takes the door's connections with one
// request each. Those that were idle longest are closed for others.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	const most = 20
	r := newRig(t, func(o *Options, _ *queue.Config) { o.mostConns, o.minIdle = most, time.Nanosecond })
	ask := func(c *raw) answer { return c.send("GET /livez HTTP/1.1\nHost: localhost\n\n").answer() }
	var all []*raw
	for range most {
		all = append(all, r.dial())
		require.Equal(t, http.StatusOK, ask(all[len(all)-1]).status)
		require.Eventually(t, func() bool { return r.connections.resting() == len(all) }, patience, time.Millisecond, "the server tells of it after the answer")
	}
	require.Equal(t, http.StatusOK, ask(all[0]).status)
	require.Eventually(t, func() bool { return r.connections.resting() == most }, patience, time.Millisecond)
	for range most / 2 {
		require.Equal(t, http.StatusOK, ask(r.dial()).status)
		require.Eventually(t, func() bool { return r.connections.resting() == most }, patience, time.Millisecond)
	}
	for _, c := range all[1 : most/2+1] {
		c.closed()
	}
	require.Equal(t, http.StatusOK, ask(all[0]).status, "it was used later")
	require.EqualValues(t, most, r.connections.open.Load())
}

// resting is how many connections are idle.
func (c *connections) resting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Len()
}

// TestAnIdleConnection stays open for as long as the setting says.
func TestAnIdleConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) { o.KeepAlive = time.Second })
	c := r.dial().send("GET /livez HTTP/1.1\nHost: localhost\n\n")
	require.Equal(t, http.StatusOK, c.answer().status)
	c.closed()
	require.Equal(t, time.Second, r.http.IdleTimeout)
}

// TestCharsets: JSON is UTF-8, by whatever name a client calls that.
func TestCharsets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, media := range []string{"application/json", "application/json; charset=utf-8", "application/json; charset=UTF-8", "application/json;charset=utf8", "application/json; charset=UTF8",
		`application/json; charset="utf-8"`, "Application/JSON; Charset=Utf-8", "application/json; charset=us-ascii", "application/json; charset='utf-8'", "application/x-ndjson; charset=utf8"} {
		a := r.do("POST", "/v1/orders", body(fmt.Sprint("C-", i)), "Content-Type", media)
		require.Less(t, a.status, 300, "%s: %s", media, a.text)
	}
	for _, media := range []string{"application/json; charset=utf-16", "application/json; charset=iso-8859-1", "application/json; charset=windows-1252", "application/x-ndjson; charset=utf-32"} {
		require.Equal(t, http.StatusUnsupportedMediaType, r.do("POST", "/v1/orders", body("D"), "Content-Type", media).status, media)
	}
}

// TestAnotherHost: a page in a browser may resolve its own name to this machine.
func TestAnotherHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for host, want := range map[string]int{"localhost": 404, "127.0.0.1:8080": 404, "[::1]:8080": 404, "evil.example": 421, "127.0.0.1.evil.example:80": 421, "10.0.0.1": 421} {
		a := r.dial().send("GET /v1/orders?order_no=A HTTP/1.1\nHost: %s\n\n", host).answer()
		require.Equal(t, want, a.status, "%s: %s", host, a.text)
	}
}

// TestAPOSTTakesNoParameters: a deadline there would not count, and the order be sent without one.
func TestAPOSTTakesNoParameters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, kind := range []string{mediaJSON, mediaLines} {
		p := r.do("POST", "/v1/orders?deadline=2126-01-01T00:00:00Z", body("P"), "Content-Type", kind).problem(t)
		require.Equal(t, "bad-request", p.name())
		require.Equal(t, "parameter deadline", p.Where)
		require.Contains(t, p.Detail, "headers, such as Order-Deadline")
	}
	p := r.do("POST", "/v1/orders", body("L"), "Content-Type", mediaJSON, headerNotBefore, "2026-01-01T00:00:00Z").problem(t)
	require.Equal(t, "header Order-Not-Before", p.Where)
	require.Contains(t, p.Detail, "2026-01-01T00:00:00Z is over, so the order would be sent at once; give a later time, or none")
	require.Zero(t, r.stored())
}

// TestAHeaderThatIsThereTwice names two orders: with the first of two deadlines, an order might be
// sent that must not be any more.
func TestAHeaderThatIsThereTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, values := range map[string][2]string{
		headerDeadline:  {"2126-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		headerNotBefore: {"2026-01-01T00:00:00Z", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
		headerLane:      {"fast", "slow"},
		headerBatch:     {"march", "april"},
	} {
		in := body("T-" + name)
		a := r.dial().send(post+"%[1]s: %[2]s\n%[1]s: %[3]s\nContent-Length: %[4]d\n\n", name, values[0], values[1], len(in)).send("%s", in).answer()
		require.Equal(t, badRequest.status, a.status, a.text)
		require.Equal(t, "header "+name, a.problem(t).Where)
		require.Contains(t, a.text, "it is there 2 times; give it once")

		// Nor is an empty one taken for none.
		a = r.dial().send(post+"%s: \nContent-Length: %d\n\n", name, len(in)).send("%s", in).answer()
		require.Equal(t, badRequest.status, a.status, a.text)
		require.Equal(t, "header "+name, a.problem(t).Where)
		require.Contains(t, a.text, "it is empty; give it a value, or leave it out")
	}
	require.Zero(t, r.stored())
}
