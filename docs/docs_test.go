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

// TestSectionsAreWhole: a comment in a block of commands neither ends a section nor counts as one.
func TestSectionsAreWhole(t *testing.T) {
	t.Parallel()
	for _, name := range append(docs.Names(), "README") {
		whole, err := docs.Text(name, "")
		require.NoError(t, err)
		fenced := fencedLines(whole)
		for _, title := range docs.Sections(name) {
			for _, line := range fenced {
				require.NotEqual(t, title, strings.TrimLeft(line, "# "), "%s: the line is in a block", name)
			}
			section, err := docs.Text(name, title)
			require.NoError(t, err)
			require.Zero(t, strings.Count("\n"+section, "\n```")%2, "%s ends within a block:\n%s", name, section)
		}
	}
	section, err := docs.Text("runbook", "StreamsMissing")
	require.NoError(t, err)
	require.Contains(t, section, "\norderpost audit ", "the last command of the block")
}

// fencedLines returns the lines within the blocks of a document.
func fencedLines(text string) (lines []string) {
	within := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			within = !within
		} else if within {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
