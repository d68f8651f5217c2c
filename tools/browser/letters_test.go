package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExport: the orders of a group, and of a selection, as files.
func TestExport(t *testing.T) {
	t.Parallel()
	s := newStage(t, rare(t))
	for _, scripts := range []bool{true, false} {
		p := s.loggedIn(scripts)
		s.openUntil(p, "/letters?outcome=exhausted", "all 7 that match the filter")
		p.click("all 7 that match the filter")
		p.press("Export…")
		p.sees("7 orders can be saved. The dead letters stay.")
		p.accessible("an export")
		require.Equal(t, 7, strings.Count(p.saves("Save as NDJSON"), "\n"))
		sheet := p.saves("Save as CSV")
		require.Contains(t, sheet, "order_no,timeout,item,_outcome,_reason\n")
		require.Contains(t, sheet, "BUSY-007,30,filter Ø 40,exhausted,HTTP 429\n")

		s.openUntil(p, "/letters?outcome=exhausted", "those that are ticked below")
		p.press("Export…")
		p.sees("No dead letter was ticked, so nothing was done.")
		p.sees("all 7 that match the filter")
		s.openUntil(p, "/letters?outcome=exhausted", "those that are ticked below")
		p.tick("Choose BUSY-002")
		p.press("Export…")
		p.sees("1 order can be saved.")
		require.Contains(t, p.saves("Save as NDJSON"), `"BUSY-002"`)
	}
}

// openUntil opens a page until it shows a text: the console counts in the background.
func (s *stage) openUntil(p *page, path, text string) {
	s.Helper()
	p.until("the page shows "+text, func() bool {
		s.open(p, path)
		return contains(p, text)
	})
}
