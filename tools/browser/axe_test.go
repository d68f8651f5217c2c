package browser

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/axe/axe.min.js
var axe string

// TestAxeIsUnchanged: it is the file that the npm package has; the README beside it says
// which.
func TestAxeIsUnchanged(t *testing.T) {
	sum := sha256.Sum256([]byte(axe))
	require.Equal(t, "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c", hex.EncodeToString(sum[:]))
}

// audit is what axe returns.
type audit struct {
	Violations []struct {
		ID    string
		Help  string
		Nodes []struct {
			HTML           string
			FailureSummary string
		}
	}
	Passes []struct{ ID string }
}

// accessible runs axe on the page in both colour schemes at both widths, and looks for
// what axe does not: a page that must be scrolled sideways.
func (p *page) accessible(what string) {
	p.Helper()
	for _, found := range p.violations() {
		p.Errorf("%s: %s", what, found)
	}
}

func (p *page) violations() (found []string) {
	p.Helper()
	p.scripts(true) // axe waits with timers; the page's own scripts have been left out
	defer func() { p.scheme("light"); p.width(wide); p.scripts(!p.bare) }()
	for _, width := range []int64{narrow, wide} {
		p.width(width)
		if excess := evaluate[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); excess > 0 {
			found = append(found, fmt.Sprintf("at %d px the page is %d px too wide: %s", width, excess, p.widest()))
		}
		for _, scheme := range []string{"light", "dark"} {
			if p.bare && (width == narrow) == (scheme == "light") {
				continue // two of the four; a script changes neither widths nor colours
			}
			p.scheme(scheme)
			for _, v := range p.axe().Violations {
				for _, n := range v.Nodes {
					found = append(found, fmt.Sprintf("%s at %d px: %s (%s)\n  %s\n  %s", scheme, width, v.Help, v.ID, n.HTML,
						strings.ReplaceAll(n.FailureSummary, "\n", "\n  ")))
				}
			}
		}
	}
	return found
}

// axe runs all rules of WCAG 2.2 AA and axe's best practices.
func (p *page) axe() (result audit) {
	p.Helper()
	if !evaluate[bool](p, "typeof axe === 'object'") {
		evaluate[bool](p, axe+"\n;true")
	}
	text := evaluate[string](p, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"], selectors: false, preload: false}).then(r => JSON.stringify(r))`)
	require.NoError(p, json.Unmarshal([]byte(text), &result))
	require.NotEmpty(p, result.Passes, "axe looked at nothing")
	return result
}

// widest names the elements that reach beyond the right edge.
func (p *page) widest() string {
	return evaluate[string](p, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join(" … ")`)
}
