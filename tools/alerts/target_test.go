package alerts

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/e2e/child"
)

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

// target is a worker that Prometheus can scrape.
type target struct {
	*child.Child
	metrics string // URL
	door    string // URL of its HTTP door
}

// startTarget starts a worker and waits until it works.
func startTarget(t *testing.T, name string, settings map[string]string) target {
	t.Helper()
	w := target{Child: child.Start(t, name, settings)}
	require.Eventually(t, func() bool {
		_, rest, found := strings.Cut(w.Said(), `"ops":"`)
		w.metrics, _, _ = strings.Cut(rest, `"`)
		return found && strings.Contains(w.Said(), `"message":"working"`)
	}, patience, pause, "worker %s does not work", name)
	w.metrics += "/metrics"
	for line := range strings.Lines(w.Said()) {
		var said struct{ URL, Message string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Message == "the HTTP door is open" {
			w.door = said.URL
		}
	}
	require.NotEmpty(t, w.door, "worker %s has no HTTP door", name)
	return w
}
