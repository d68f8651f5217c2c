package sandbox

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (a *api) get(t *testing.T, path string) answered {
	r, err := http.NewRequest(http.MethodGet, a.url+path, nil)
	require.NoError(t, err)
	r.Header.Set("X-API-Key", testKey)
	got, err := a.do(r)
	require.NoError(t, err)
	return got
}

func TestAnOrderIsFound(t *testing.T) {
	a := start(t, nil)
	a.post("A/1")
	got := a.get(t, "/v1/order/A%2F1")
	require.Equal(t, http.StatusOK, got.status)
	require.JSONEq(t, `{"code":0,"message":"ok","data":{"order_no":"A/1","status":"created"}}`, got.body)
	got = a.get(t, "/v1/order/A-2")
	require.Equal(t, http.StatusNotFound, got.status)
	require.Equal(t, 300404, got.code())

	a.set(func(s *Settings) { s.LookupLag = time.Second })
	require.Equal(t, http.StatusNotFound, a.get(t, "/v1/order/A%2F1").status)
	a.set(func(s *Settings) { s.Faults.Refuse = 1 })
	a.post("A-3")
	require.Contains(t, a.get(t, "/v1/order/A-3").body, `"status":"declined"`)
}

func TestARequestThatIsHeldUp(t *testing.T) {
	a := start(t, nil)
	a.set(func(s *Settings) { s.Faults.Late, s.Faults.LateDelay = 1, time.Millisecond })
	_, err := a.do(a.request(a.order("A-1")))
	require.Error(t, err, "its connection is closed")
	require.Eventually(t, func() bool { return a.server.Created("A-1") == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, int64(1), a.server.Ledger().Faults["late"])
}
