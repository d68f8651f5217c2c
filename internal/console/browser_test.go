package console

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notLookedAt are routes that answer no page of their own.
var notLookedAt = []string{"GET /login"}

// TestTheBrowserLooksAtEveryPage: a page that no browser has seen may be unreadable for
// somebody.
func TestTheBrowserLooksAtEveryPage(t *testing.T) {
	list, err := os.ReadFile("../../tools/browser/pages_test.go")
	require.NoError(t, err)
	for _, rt := range newRig(t).routes() {
		if strings.HasPrefix(rt.pattern, http.MethodGet) && !slices.Contains(notLookedAt, rt.pattern) {
			require.Contains(t, string(list), "{"+strconv.Quote(rt.pattern)+", ", "add the page to looks in tools/browser/pages_test.go")
		}
	}
}
