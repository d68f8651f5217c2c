package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/patient"
)

const (
	testKey    = "test-key"
	testSecret = "test-secret"
)

// testTime is where a test's clock starts.
var testTime = time.UnixMilli(1_750_000_000_000)

// api is a server on a real socket, with a clock of its own and a client that
// signs.
type api struct {
	t      testing.TB
	server *Server
	url    string
	client *http.Client
	clock  atomic.Int64 // milliseconds
	stamp  atomic.Int64 // the last timestamp that the client used
}

// start makes an api. The client repeats nothing by itself: a keep-alive
// connection that the server has dropped would make net/http send again.
func start(t testing.TB, change func(*Config)) *api {
	t.Helper()
	a := &api{t: t}
	a.clock.Store(testTime.UnixMilli())
	a.stamp.Store(testTime.UnixMilli())
	cfg := Config{
		Keys:   map[string]string{testKey: testSecret},
		Logger: zerolog.Nop(),
		Now:    func() time.Time { return time.UnixMilli(a.clock.Load()) },
	}
	if change != nil {
		change(&cfg)
	}
	server, err := New(cfg)
	require.NoError(t, err)
	a.server = server
	front := httptest.NewServer(server.Handler())
	transport := &http.Transport{DisableKeepAlives: true}
	a.url, a.client = front.URL, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		server.Close()
		front.Close()
		transport.CloseIdleConnections()
	})
	return a
}

// order is a request to create an order, signed by hand: none of the code
// under test has a part in it.
type order struct {
	no        string
	amount    string
	timestamp int64
}

func (o order) body() string {
	return fmt.Sprintf(`{"order_no":"%s","timeout":60,"amount":"%s","timestamp":%d}`, o.no, o.amount, o.timestamp)
}

func (o order) signature(secret string) string {
	return hexMAC(secret, fmt.Sprintf("amount=%s&order_no=%s&timeout=60&timestamp=%d", o.amount, o.no, o.timestamp))
}

func hexMAC(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// order gives an order with a timestamp that no other has.
func (a *api) order(no string) order {
	return order{no: no, amount: "12.50", timestamp: a.stamp.Add(1)}
}

// request is the signed request for an order.
func (a *api) request(o order) *http.Request {
	r, err := http.NewRequest(http.MethodPost, a.url+createPath, strings.NewReader(o.body()))
	require.NoError(a.t, err)
	r.GetBody = nil
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", testKey)
	r.Header.Set("X-Signature", o.signature(testSecret))
	return r
}

// answered is what came back.
type answered struct {
	status int
	header http.Header
	body   string
}

// code is the number in the body, -1 where there is none.
func (r answered) code() int {
	var b struct{ Code, Errno *int }
	if json.Unmarshal([]byte(r.body), &b) == nil {
		for _, n := range []*int{b.Code, b.Errno} {
			if n != nil {
				return *n
			}
		}
	}
	return -1
}

// do sends a request; a connection that closes unanswered is an error.
func (a *api) do(r *http.Request) (answered, error) {
	res, err := a.client.Do(r)
	if err != nil {
		return answered{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answered{res.StatusCode, res.Header, string(body)}, err
}

// post sends a new attempt for an order and must get an answer.
func (a *api) post(no string) answered {
	a.t.Helper()
	got, err := a.do(a.request(a.order(no)))
	require.NoError(a.t, err)
	return got
}

func (a *api) set(change func(*Settings)) {
	a.t.Helper()
	require.NoError(a.t, a.server.Update(change))
}

func TestMain(m *testing.M) { patient.Main(m) }

// size returns the number of remembered signatures.
func (r *replays) size() (n int) {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for _, set := range sh.sets {
			n += len(set)
		}
		sh.mu.Unlock()
	}
	return n
}
