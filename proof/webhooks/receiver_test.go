package webhooks

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// event is what the receiver reads of an event.
type event struct {
	ID   string `json:"-"`
	Type string `json:"type"`
	Data struct {
		OrderNo  string `json:"order_no"`
		Outcome  string `json:"outcome"`
		Position uint64 `json:"position"`
	} `json:"data"`
}

// receiver takes what the library verifies, and sometimes fails.
type receiver struct {
	*httptest.Server
	t  *testing.T
	by *standardwebhooks.Webhook

	mu       sync.Mutex
	flaky    int // of a hundred requests that are answered 500
	taken    []event
	ids      map[string]string // bodies' outcomes by webhook-id
	unproven int
	last     *http.Request // the last one that was taken, and its body
	lastBody []byte
}

func startReceiver(t *testing.T, secret string) *receiver {
	by, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	r := &receiver{t: t, by: by, ids: make(map[string]string)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender was killed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := event{ID: req.Header.Get("webhook-id")}
	switch {
	case r.by.Verify(body, req.Header) != nil:
		r.unproven++
		w.WriteHeader(http.StatusUnauthorized)
	case json.Unmarshal(body, &e) != nil:
		w.WriteHeader(http.StatusBadRequest)
	case rand.IntN(100) < r.flaky:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		r.taken, r.last, r.lastBody = append(r.taken, e), req, body
		w.WriteHeader(http.StatusNoContent)
	}
}

func (r *receiver) flakes(percent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flaky = percent
}

// standing returns the outcome that the receiver heard last of each order_no.
func (r *receiver) standing() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]string)
	for _, e := range r.taken {
		out[e.Data.OrderNo] = e.Data.Outcome
	}
	return out
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.taken)
}
