package browser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// key presses keys, one after another.
func (p *page) key(keys ...string) {
	p.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// active is what has the focus: the element's name, and what a screen reader would call it.
func (p *page) active() string {
	return evaluate[string](p, `document.activeElement.tagName + " " + (document.activeElement.getAttribute("aria-label") || document.activeElement.textContent.trim())`)
}

// roles counts the nodes of the accessibility tree by their roles, as a screen reader gets them.
func (p *page) roles() map[string]int {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(p, err)
	out := make(map[string]int)
	for _, n := range tree.Nodes {
		if !n.Ignored && n.Role != nil {
			out[strings.Trim(string(n.Role.Value), `"`)]++
		}
	}
	return out
}

// TestGridByKeys: the rows of a file are a grid with one tab stop, in which keys move, change a cell and leave it as it was;
// what is changed is said, and survives no accident silently.
func TestGridByKeys(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	p := s.loggedIn(true)
	rows := []string{"order_no,timeout,note"}
	for i := range 250 {
		rows = append(rows, fmt.Sprintf("GRID-%03d,30,note %d", i, i))
	}
	s.upload(p, s.file("grid.csv", rows...))
	at := p.at()
	p.goTo(at + "/rows")
	p.sees("Rows 1 to 100 of 250")
	require.Equal(t, 1, evaluate[int](p, `[...document.querySelectorAll('table[role=grid] *')].filter(e => e.tabIndex >= 0).length`), "one tab stop")
	require.Equal(t, "250", evaluate[string](p, `document.querySelector('table[role=grid]').getAttribute("aria-rowcount")`))
	evaluate[bool](p, `(document.querySelector('table[role=grid] [tabindex="0"]').focus(), true)`)
	p.key(kb.ArrowDown, kb.ArrowRight, kb.ArrowRight, kb.ArrowRight, kb.ArrowRight)
	require.Equal(t, "TD note 1", p.active())
	p.key(kb.Enter)
	require.Equal(t, "INPUT note, line 3", p.active())
	p.key("x", kb.Escape)
	require.Equal(t, "note 1", evaluate[string](p, `document.activeElement.querySelector("input[name=now]").value`))
	require.Empty(t, evaluate[string](p, `document.querySelector("[data-changes]").textContent`))
	p.key(kb.Enter, "better", kb.Enter)
	p.sees("1 cell changed: not checked yet.")
	require.Equal(t, "TD note 2", p.active(), "the cell below")
	p.key(kb.Home, kb.ArrowRight, " ")
	p.sees("1 cell changed, 1 row to be left out: not checked yet.")
	evaluate[bool](p, "(scrollTo(0, 0), true)")
	s.shows(p, picture{"console-grid", "", "light", 700})
	p.accessible("a grid")
	p.width(wide)
	p.press("Check with these changes")
	p.sees("1 cell sent otherwise than in the file")
	p.sees("1 row, as you said: 4")
	p.goTo(at + "/rows?from=201")
	p.sees("Rows 201 to 249 of 249")
	require.True(t, strings.HasSuffix(evaluate[string](p, `document.querySelector('a.edit').href`), "#line-203"), "line 4 is left out")
	p.width(390)
	require.Equal(t, "block", evaluate[string](p, `getComputedStyle(document.querySelector("table[role=grid] td")).display`), "rows are cards")
	for _, width := range []int64{390, wide} {
		p.width(width)
		roles := p.roles()
		require.Equal(t, []int{1, 50, 49, 5, 49 * 4}, []int{roles["grid"], roles["row"], roles["rowheader"], roles["columnheader"], roles["gridcell"]}, "at %d px: %v", width, roles)
	}
}
