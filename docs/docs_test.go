package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/docs"
)

// TestText: a section ends where the next one of its level begins, and its name need not
// be complete.
func TestText(t *testing.T) {
	whole, err := docs.Text("runbook", "")
	require.NoError(t, err)
	for _, name := range []string{"OrderpostKeyDenied", "orderpostkeydenied", "KeyDenied"} {
		section, err := docs.Text("runbook", name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(section, "## OrderpostKeyDenied\n"), section)
		require.Equal(t, 1, strings.Count("\n"+section, "\n## "))
		require.Contains(t, whole, section)
	}
	_, err = docs.Text("runbook", "nothing like it")
	require.ErrorContains(t, err, `runbook has no section "nothing like it"; its sections are: `)
	_, err = docs.Text("../go.mod", "")
	require.ErrorContains(t, err, "there is no command and no document")
	require.Contains(t, docs.Names(), "runbook")
	require.NotContains(t, docs.Names(), "README")
}
