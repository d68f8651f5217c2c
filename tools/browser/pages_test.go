package browser

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// look is one page of the console as axe must have seen it.
type look struct {
	route string // its pattern in internal/console
	path  string
	sees  string // what the page shows of the stage's orders
}

// looks are all pages that the console has. TestTheBrowserLooksAtEveryPage in
// internal/console fails if one is missing here.
var looks = []look{
	{"GET /{$}", "/", "Settled, last hour"},
	{"GET /fleet", "/fleet", "worker-1"},
	{"GET /order", "/order", "Order number"},
	{"GET /order", "/order?q=demo-0000", "Found as"},
	{"GET /order", "/order?no=DEMO-00001", "The API created the order"},
	{"GET /order", "/order?no=MARKUP-001", "<h1>no such article</h1>"},
	{"GET /order", "/order?no=BUSY-001", "exhausted"},
	{"GET /order", "/order?no=CRASH-001", "poison"},
	{"GET /order", "/order?no=MAY-1", "cancelled"},
	{"GET /order", "/order?no=nobody%20knows", "Nothing is known about this order number."},
	{"GET /order", "/order?no=LATE-001", "What people did"},
	{"GET /letters", "/letters?outcome=exhausted&order-no=BUSY-*", "match"},
	{"GET /letters", "/letters?batch=nobody%20knows", "No dead letter matches."},
	{"GET /letters/{seq}/resolve", "DOUBT/resolve", "Back, do nothing"},
	{"GET /fleet/hold", "/fleet/hold", "Back, do nothing"},
	{"GET /fleet/resume", "/fleet/resume", "Nobody holds the fleet."},
	{"GET /fleet/limit", "/fleet/limit", "Requests per second of all workers together"},
	{"GET /fleet/limit", "/fleet/limit?limit=50/s", "Back, do nothing"},
	{"GET /letters", "/letters", "Act on many letters"},
	{"GET /letters", "/letters?outcome=exhausted", "that match the filter"},
	{"GET /letters/{seq}", "/letters/LETTER", "BUSY-001"},
	{"GET /letters/{seq}/replay", "/letters/LETTER/replay", "Back, do nothing"},
	{"GET /letters/{seq}/drop", "/letters/LETTER/drop", "Back, do nothing"},
	{"GET /jobs", "/jobs", "Preview: Drop dead letters"},
	{"GET /jobs/{id}", "/jobs/PREVIEW", "would be forgotten"},
	{"GET /jobs/{id}", "/jobs/EXPORT", "What the file would hold"},
	{"GET /jobs/{id}/confirm", "/jobs/PREVIEW/confirm", "to confirm"},
	{"GET /books", "/books", "The sums"},
	{"GET /journal", "/journal", "What people did, newest first"},
	{"GET /journal", "/journal?kind=drop&by=nobody", "No act matches"},
	{"GET /upload", "/upload", "Files that are here"},
	{"GET /upload/{id}", "/upload/CHECKED", "bad rows"},
	{"GET /upload/{id}", "/upload/IMPORTED", "The import"},
	{"GET /upload/{id}/remove", "/upload/CHECKED/remove", "Orders that were imported from it stay."},
	{"GET /upload/{id}/rows", "/upload/CHECKED/rows", "Rows 1 to"},
	{"GET /upload/{id}/rows", "/upload/IMPORTED/rows?show=failed", "No row is one of these"},
	{"GET /imports", "/imports", "march"},
	{"GET /import", "/import?batch=march", "Its orders, now"},
	{"GET /import", "/import?batch=IMPORT", "What became of the rows"},
	{"GET /pending", "/pending", "in the queue without an outcome"},
	{"GET /waiting", "/waiting", "for their turn or their time"},
	{"GET /import/pause", "/import/pause?batch=march", "Other imports take their turns."},
	{"GET /import/resume", "/import/resume?batch=march", "Nobody holds the import."},
	{"GET /import/cancel", "/import/cancel?batch=march", "Orders that have an outcome keep it."},
	{"/", "/nowhere", "There is no such page."},
}

// approvalLooks are the pages about approvals, which need two people with names.
var approvalLooks = []look{
	{"GET /approvals", "/approvals", "Imports that wait for an approval"},
	{"GET /approval", "/approval?batch=march", "Who stands for it"},
	{"GET /approval/approve", "/approval/approve?batch=march", "You stand for these orders with your name."},
	{"GET /approval/refuse", "/approval/refuse?batch=march", "Its orders that wait are withdrawn"},
}

// TestPages: axe finds nothing on any page, in both colour schemes, at both widths,
// with JavaScript and without it.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newStage(t, rare(t))
	s.fill()
	s.orderpost(0, "deadletter", "drop", "--order-no", "LATE-001", "--yes", "--note", "not wanted any more")
	s.audited()
	made := s.uploaded()
	// Several windows at once: a page waits for its browser most of the time.
	const windows = 2
	for _, scripts := range []bool{true, false} {
		for part := range windows {
			t.Run(fmt.Sprintf("scripts=%t,part=%d", scripts, part+1), func(t *testing.T) {
				t.Parallel()
				s.in(t).looksAt(scripts, part, windows, made)
			})
		}
	}
}

// looksAt opens every page whose turn it is, between a login and a logout.
func (s *stage) looksAt(scripts bool, part, of int, made *strings.Replacer) {
	p := s.visitor(scripts)
	if part == 0 {
		s.open(p, "/login")
		p.sees("Open the link that was printed")
		p.accessible("/login")
	}
	s.logIn(p)
	p.expects("404") // /nowhere
	p.expects("409") // nothing to resolve
	for i, l := range looks {
		if i%of == part {
			s.open(p, made.Replace(l.path))
			p.sees(l.sees)
			p.accessible(l.path)
		}
	}
	if part > 0 {
		return
	}
	if scripts {
		s.open(p, "/")
		for _, path := range evaluate[[]string](p, `[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))`) {
			require.True(s, slices.ContainsFunc(looks, func(l look) bool { return l.path == path }), "the menu has %s, and looks does not", path)
		}
	}
	p.click("Log out")
	p.sees("You are logged out.")
	p.accessible("/logout")
}

// audited balances the books, so that their page has something to show.
func (s *stage) audited() {
	s.Helper()
	p := s.loggedIn(true)
	s.open(p, "/books")
	p.sees("No audit was made since this console started.")
	p.accessible("the books before an audit")
	p.click("Balance the books")
	p.sees("The books balance")
}

// uploaded uploads a file and checks it, imports another, previews dropping dead
// letters, and returns what replaces CHECKED, IMPORTED, IMPORT, LETTER, DOUBT, PREVIEW and
// EXPORT in the paths of looks.
func (s *stage) uploaded() *strings.Replacer {
	s.Helper()
	p := s.loggedIn(true)
	s.upload(p, s.badFile("bad.csv"))
	p.sees("2 bad rows")
	checked := path.Base(p.at())
	s.upload(p, s.goodFile("good.csv", "GOOD"))
	p.sees("The first orders as they would be sent")
	p.press("Import 3 orders")
	p.sees("Follow its orders")
	imported := path.Base(p.at())
	p.click("Follow its orders")
	p.sees("Its orders, now")
	_, batch, _ := strings.Cut(p.at(), "batch=")
	s.open(p, "/letters?order-no=BUSY-001")
	p.click("BUSY-001")
	p.sees("exhausted")
	letter := path.Base(p.at())
	s.open(p, "/letters?outcome=unknown")
	doubt := evaluate[string](p, `document.querySelector("table.list tbody a").getAttribute("href")`)
	s.open(p, "/letters?outcome=exhausted")
	evaluate[bool](p, `(document.getElementById("which-all").click(), true)`)
	p.press("Drop…")
	p.sees("would be forgotten")
	preview := path.Base(p.at())
	s.open(p, "/letters?outcome=exhausted")
	evaluate[bool](p, `(document.getElementById("which-all").click(), true)`)
	p.press("Export…")
	p.sees("can be saved")
	return strings.NewReplacer("CHECKED", checked, "IMPORTED", imported, "IMPORT", batch, "LETTER", letter, "DOUBT", doubt, "PREVIEW", preview, "EXPORT", path.Base(p.at()))
}
