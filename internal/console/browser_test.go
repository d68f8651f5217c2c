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
var notLookedAt = []string{"GET /login", "GET /upload/template", "GET /upload/{id}/mapping", "GET /upload/{id}/rejects", "GET /upload/{id}/results", "GET /upload/{id}/events"}

// TestTheBrowserLooksAtEveryPage: a page that no browser has seen may be unreadable for
// somebody.
func TestTheBrowserLooksAtEveryPage(t *testing.T) {
	list, err := os.ReadFile("../../tools/browser/pages_test.go")
	require.NoError(t, err)
	for _, rt := range routes() {
		if strings.HasPrefix(rt.pattern, http.MethodGet) && !slices.Contains(notLookedAt, rt.pattern) {
			listed := strings.Contains(string(list), "{"+strconv.Quote(rt.pattern)+", ")
			require.True(t, listed, "add the page %s to looks in tools/browser/pages_test.go", rt.pattern)
		}
	}
}

// TestMenu: one item at most is marked, also on a page behind it.
func TestMenu(t *testing.T) {
	for path, want := range map[string]string{"/": "/ page", "/fleet": "/fleet page", "/fleet/hold": "/fleet true", "/import": "/imports true", "/import/cancel": "/imports true",
		"/upload/1": "/imports true", "/pending": "/order true", "/waiting": "/imports true", "/jobs/x": "/letters true", "/journal": "/books true", "/nowhere": "", "/orders": ""} {
		var marked []string
		for _, item := range menu {
			if current := item.Current(path); current != "" {
				marked = append(marked, item.Path()+" "+current)
			}
		}
		require.Equal(t, want, strings.Join(marked, ", "), path)
	}
}
