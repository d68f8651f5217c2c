package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/gateway/door"
	"orderpost/internal/queue"
)

// revocable is a door of which the client shop can be changed while it has requests under way.
type revocable struct {
	*rig
	path string
}

func newRevocable(t *testing.T, recheckEvery time.Duration) *revocable {
	t.Helper()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, ReadAll, Cancel}, "desk": {Submit, ReadAll}})
	r := &revocable{path: path, rig: newRig(t, func(o *Options, _ *queue.Config) {
		o.Clients, o.recheckEvery = path, recheckEvery
	})}
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A"), "Authorization", bearer("desk")).status)
	return r
}

// as sends the beginning of a request of shop, and waits until the door has it in hand.
func (r *revocable) as(route, request, headers, body string) *raw {
	r.t.Helper()
	before := r.open(route)
	c := r.dial().send("%s HTTP/1.1\nHost: localhost\nAuthorization: %s\n"+headers+"\n", request, bearer("shop"))
	_, err := io.WriteString(c, body)
	require.NoError(r.t, err)
	require.Eventually(r.t, func() bool { return r.open(route) > before }, patience, time.Millisecond)
	return c
}

// change gives shop other scopes, none of which means that its token is taken away, and waits until
// the door knows.
func (r *revocable) change(scopes ...Scope) {
	r.t.Helper()
	clients := map[string][]Scope{"desk": {Submit, ReadAll}}
	if len(scopes) > 0 {
		clients["shop"] = scopes
	}
	writeClients(r.t, r.path, clients)
	require.Eventually(r.t, func() bool {
		c := r.clients.find("token-shop")
		return c == nil && len(scopes) == 0 || c != nil && len(c.scopes) == len(scopes)
	}, patience, 5*time.Millisecond)
}

// TestWaitsEndWithTheirToken: what a client waits for is not told once its token is taken away,
// neither because it comes then, nor because nothing comes.
func TestWaitsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	for name, recheckEvery := range map[string]time.Duration{"the outcome comes": time.Hour, "nothing comes": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRevocable(t, recheckEvery)
			waits := []*raw{r.as("order", "GET /v1/orders?order_no=A&wait=5m", "", ""), r.as("outcomes", "GET /v1/outcomes?after=0&wait=5m", "", "")}
			feed := r.as("outcomes", "GET /v1/outcomes?after=0", "Accept: text/event-stream\n", "")
			r.change()
			if recheckEvery == time.Hour {
				r.settle(1)
			}
			for _, w := range waits {
				a := w.answer()
				require.Equal(t, "unauthorized", a.problem(t).name(), a.text)
				require.NotContains(t, a.text, "order_no")
			}
			require.NotContains(t, feed.answer().text, "order_no")
		})
	}
}

// TestUploadsEndWithTheirToken: of a stream of lines, of a body and of a file nothing more is taken
// once the client's token is taken away.
func TestUploadsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	for name, recheckEvery := range map[string]time.Duration{"more comes": time.Hour, "nothing comes": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRevocable(t, recheckEvery)
			more := recheckEvery == time.Hour
			const line = `{"order_no":"L-%d","timeout":30}` + "\n"
			whole := body("B")
			stream := r.as("submit", "POST /v1/orders", "Content-Type: application/x-ndjson\nTransfer-Encoding: chunked\n", chunk(fmt.Sprintf(line, 1)))
			one := r.as("submit", "POST /v1/orders", fmt.Sprintf("Content-Type: application/json\nContent-Length: %d\n", len(whole)), whole[:9])
			csv := file("F", 3)
			upload := r.as("import", "POST /v1/imports?direct", fmt.Sprintf("Content-Type: text/csv\nContent-Length: %d\n", len(csv)), csv[:30])
			resp, err := http.ReadResponse(stream.in, nil)
			require.NoError(t, err)
			lines := bufio.NewScanner(resp.Body)
			require.True(t, lines.Scan())
			require.Contains(t, lines.Text(), `"status":201`)
			stored := r.stored()
			r.change()
			if more {
				for c, rest := range map[*raw]string{stream: chunk(fmt.Sprintf(line, 2)), one: whole[9:], upload: csv[30:]} {
					_, err := io.WriteString(c, rest)
					require.NoError(t, err)
				}
			}
			require.True(t, lines.Scan())
			p := new(problem)
			require.NoError(t, json.Unmarshal(lines.Bytes(), p), lines.Text())
			require.Equal(t, []any{"unauthorized", 2}, []any{p.name(), p.Line})
			require.False(t, lines.Scan())
			for _, c := range []*raw{one, upload} {
				a := c.answer()
				require.Equal(t, "unauthorized", a.problem(t).name(), a.text)
			}
			require.Equal(t, stored, r.stored())
		})
	}
}

// chunk is one part of a chunked body.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// TestResultsEndWithTheirToken: results that are read slowly break off once the client's token is
// taken away.
func TestResultsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	for name, recheckEvery := range map[string]time.Duration{"more comes": time.Hour, "nothing comes": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRevocable(t, recheckEvery)
			held := &heldResults{Files: r.files, first: make(chan struct{}), more: make(chan struct{})}
			r.files = held
			where := r.bringFile(file("F", 3), "?direct", "Authorization", bearer("shop"))
			results := r.as("import-results", "GET "+where+"/results", "", "")
			<-held.first
			r.change()
			if recheckEvery == time.Hour {
				close(held.more)
			}
			resp, err := http.ReadResponse(results.in, nil)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "it looks whole")
			require.NotContains(t, string(text), "secret")
		})
	}
}

// heldResults is the rig's folder with results that stop between two parts.
type heldResults struct {
	door.Files
	first, more chan struct{}
}

func (h *heldResults) Results(ctx context.Context, _ string, w io.Writer) error {
	if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
		return err
	}
	close(h.first)
	select {
	case <-h.more:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := io.WriteString(w, "secret")
	return err
}

// TestWaitsAndScopes: a wait ends if its client loses the scope that it needs, or may see less. It
// goes on if the client loses or gets another scope.
func TestWaitsAndScopes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now    []Scope
		status int
	}{
		"may not read":   {[]Scope{Submit, Cancel}, http.StatusForbidden},
		"sees less":      {[]Scope{Read, Submit}, http.StatusForbidden},
		"cannot submit":  {[]Scope{ReadAll}, http.StatusOK},
		"may do as much": {[]Scope{Read, ReadAll, Submit, Cancel}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRevocable(t, 10*time.Millisecond)
			wait := r.as("order", "GET /v1/orders?order_no=A&wait=5m", "", "")
			r.change(c.now...)
			r.settle(1)
			a := wait.answer()
			require.Equal(t, c.status, a.status, a.text)
			if c.status == http.StatusOK {
				require.Equal(t, "accepted", a.outcome(t).Outcome)
			} else {
				require.Equal(t, "forbidden", a.problem(t).name())
			}
		})
	}
}
