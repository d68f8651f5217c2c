package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlike(t *testing.T) {
	for no, twin := range map[string]string{
		"\u0410-1":             "A-1",       // Cyrillic
		"\u0410\u0412\u0421-1": "ABC-1",     // each letter has a twin
		"\u0391-1":             "A-1",       // Greek
		"\uff21\uff0d\uff11":   "A-1",       // full-width
		"re\u0301-1":           "r\u00e9-1", // NFD
		"A\u20131":             "A-1",       // a dash
		"A\u22121":             "A-1",       // a minus
		"ORDER-\u0417\u0410":   "ORDER-\u0417A",
	} {
		l := alike(no)
		require.NotNil(t, l, "%q", no)
		require.Equal(t, twin, l.Twin, "%q", no)
		require.NotEmpty(t, l.Says)
	}
	for _, no := range []string{"A-1", "", "r\u00e9-1", "\u0417\u0410\u041a\u0410\u0417-1", "\u03a9-1", "订单-1", "注文", "🛒", " ", "\u0000"} {
		require.Nil(t, alike(no), "%q", no)
	}
	require.Equal(t, []string{"\u0410 at place 1 is Cyrillic (U+0410) and looks like A."}, alike("\u0410-1").Says)
	require.Len(t, strings.Split(alike(strings.Repeat("\u0410", 255)).Says[0], ";"), 6)
}

// TestOrdersThatLookAlike are marked in the list, and explained on their pages, with a link
// to the one that they look like.
func TestOrdersThatLookAlike(t *testing.T) {
	r := newRig(t)
	r.refuses("A-1")
	cyrillic := "\u0410-1"
	r.refuses(cyrillic)
	b := r.loggedIn()
	const says = "This order number is not what it looks like."
	for _, path := range []string{"/order?no=" + url.QueryEscape(cyrillic), r.letterPath(cyrillic)} {
		page := b.open(http.StatusOK, path)
		require.Contains(t, text(page), says)
		require.Contains(t, text(page), "is Cyrillic (U&#43;0410) and looks like A.")
		require.Contains(t, page, `href="/order?no=A-1"`)
	}
	for _, path := range []string{"/order?no=A-1", r.letterPath("A-1")} {
		require.NotContains(t, text(b.open(http.StatusOK, path)), says)
	}
	require.Eventually(t, func() bool {
		list := text(b.open(http.StatusOK, "/letters"))
		return strings.Count(list, "look-alike") == 1 && strings.Contains(list, cyrillic+" look-alike")
	}, patience, 50e6)
}

func TestSentencesKeepNames(t *testing.T) {
	for phrase, want := range map[string]string{
		"":                             "",
		"it failed":                    "It failed.",
		"it failed.":                   "It failed.",
		"\u00e4nne refused this":       "\u00c4nne refused this.",
		"march.csv has no header":      "march.csv has no header.",
		"march.csv:17:3: it is empty":  "march.csv:17:3: it is empty.",
		"order_no is there twice":      "order_no is there twice.",
		"/var/lib/orderpost is full":   "/var/lib/orderpost is full.",
		"two, or more, are there":      "Two, or more, are there.",
		"limit=0 would stop the fleet": "limit=0 would stop the fleet.",
	} {
		require.Equal(t, want, sentence(phrase))
	}
}
