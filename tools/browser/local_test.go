package browser

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestLocalTimes: the time of the reader's place stands beside UTC, once, also after the
// page has updated itself. Without JavaScript there is UTC alone. A wide table says in a
// narrow window that it scrolls.
func TestLocalTimes(t *testing.T) {
	t.Parallel()
	s := newStage(t, rare(t))
	s.fill()
	const places = `[...document.querySelectorAll("main time")].map(t => t.textContent)`
	for _, scripts := range []bool{true, false} {
		p := s.loggedIn(scripts)
		_, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
		require.NoError(t, err)
		p.width(narrow)
		s.open(p, "/order?no=DEMO-00001")
		p.sees("The API created the order")
		if !scripts {
			require.NotContains(t, p.text(), "GMT+5:30")
			continue
		}
		p.sees("GMT+5:30")
		for _, text := range evaluate[[]string](p, places) {
			require.Regexp(t, `^\S+ \S+ UTC \(.*GMT\+5:30\)$`, text)
		}
		evaluate[bool](p, `(window.swaps = 0, document.addEventListener("htmx:after:swap", () => window.swaps++), true)`)
		p.until("two updates", func() bool { return evaluate[int](p, "window.swaps") >= 2 })
		for _, text := range evaluate[[]string](p, places) {
			require.Regexp(t, `^\S+ \S+ UTC \([^()]*GMT\+5:30\)$`, text)
		}
		s.open(p, "/letters")
		p.sees("Act on many letters")
		require.True(t, evaluate[bool](p, `document.querySelector(".wide table.list").closest(".wide").classList.contains("more")`))
	}
}
