package alerts

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// hooks receives the workers' webhooks.
type hooks struct {
	*httptest.Server
	down    atomic.Bool
	refuses atomic.Pointer[string] // answers 410 to what holds this text
}

func startHooks(t *testing.T) *hooks {
	h := &hooks{}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := h.refuses.Load()
	switch {
	case h.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case text != nil && bytes.Contains(body, []byte(*text)):
		w.WriteHeader(http.StatusGone)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
