package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersAsTheyAreTold(t *testing.T) {
	a := start(t, func(c *Config) { c.Faults.ToldBefore = 1 })
	require.Equal(t, `{"error":"insufficient_balance"}`, a.post("A-1").body, "the default")
	for text, want := range map[string]struct {
		status         int
		body, location string
	}{
		`409 {"order_no":{order_no},"created":false}`: {409, `{"order_no":"A-1","created":false}`, ""},
		"302":                {302, "", "/login"},
		" 200  <html>hi ":    {200, "<html>hi", ""},
		`408 {"approved":0}`: {408, `{"approved":0}`, ""},
	} {
		a.set(func(s *Settings) { require.NoError(t, s.Set("told", text)) })
		got := a.post("A-1")
		require.Equal(t, want.status, got.status)
		require.Equal(t, want.body, got.body)
		require.Equal(t, want.location, got.header.Get("Location"))
	}
	require.Zero(t, a.server.Created("A-1"))
	for _, bad := range []string{"", "x", "199 {}", "600", "{}"} {
		require.ErrorContains(t, new(Told).Set(bad), "does not begin with a status")
	}
}
