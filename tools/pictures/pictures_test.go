package main

import (
	"encoding/xml"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var run1 = []string{"[2] 4102", "     2000 intents had ever been stored when the audit began", "      584 of them are settled", "     1416 wait or are being worked on", "$ kill -9 4102   # why",
	"orders.csv: outcomes after 22.5s", "$ orderpost audit", "     2000 of them are settled", "        0 wait or are being worked on", "The books balance."}

var run2 = []string{"[2] 77", "     1195 intents had ever been stored when the audit began", "       61 of them are settled", "     1939 wait or are being worked on", "$ kill -9 77   # why",
	"orders.csv: outcomes after 1m2s", "$ orderpost audit", "     2000 of them are settled", "        0 wait or are being worked on", "The books balance."}

// TestRedrawn: what varies from run to run leaves the picture as it is, and anything
// else changes it.
func TestRedrawn(t *testing.T) {
	committed := draw(run1)
	require.Equal(t, string(committed), string(redrawn(committed, run2)))
	for i := range run2 {
		changed := append([]string(nil), run2...)
		changed[i] = strings.Replace(strings.Replace(changed[i], "are", "were", 1), "2000", "1999", 1) + "!"
		require.NotEqual(t, string(committed), string(redrawn(committed, changed)), changed[i])
	}
	lost := append([]string(nil), run2...)
	lost[slices.Index(lost, "     2000 of them are settled")] = "     1999 of them are settled"
	require.NotEqual(t, string(committed), string(redrawn(committed, lost)), "the last audit does not vary")
	require.Equal(t, string(draw(run2)), string(redrawn(nil, run2)), "the first picture")
	require.NotEqual(t, string(committed), string(redrawn([]byte(strings.Replace(string(committed), "4102", "<&>", 1)), run2)))
}

// TestPicture: the committed picture is small and needs nothing from elsewhere.
func TestPicture(t *testing.T) {
	text, err := os.ReadFile("../../docs/pictures/kill.svg")
	require.NoError(t, err)
	require.Less(t, len(text), 60_000)
	require.NoError(t, xml.Unmarshal(text, new(any)))
	within := strings.Replace(string(text), "http://www.w3.org/2000/svg", "", 1)
	for _, reference := range []string{"//", "url(", "href", "@import", "@font-face", "<script", "<image"} {
		require.NotContains(t, within, reference)
	}
	require.Contains(t, within, "prefers-color-scheme:dark")
	require.Contains(t, within, "prefers-reduced-motion:reduce")
	require.Equal(t, string(text), string(redrawn(text, shown(text))), "drawn by another version of svg.go; run: make pictures")
	require.Contains(t, shown(text), "The books balance.")
}
