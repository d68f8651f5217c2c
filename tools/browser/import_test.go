package browser

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// upload uploads a file, up to the page with its columns.
func (s *stage) upload(p *page, file string) {
	s.Helper()
	s.open(p, "/upload")
	p.upload("File of orders", file)
	p.press("Upload")
	s.follow(p, "The first orders as they would be sent") // of the check that starts by itself
}

// badFile is a file of five rows, two of which cannot be sent.
func (s *stage) badFile(name string) string {
	return s.file(name, "order_no,timeout,sku,note", "WEB-1,30,0012,", "WEB-2,soon,0013,", "WEB-3,30,0014,<b>gift</b>", ",30,0015,", "WEB-5,60,0016,")
}

func (s *stage) goodFile(name, prefix string) string {
	return s.file(name, "order_no,timeout,sku,note", prefix+"-1,30,0012,", prefix+"-2,30,0013,", prefix+"-3,30,0014,")
}

// TestImport: a file with errors, which are shown and not imported; the same file
// mended; and its way to the outcomes and the results file.
func TestImport(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, scripts := range []bool{true, false} {
		prefix := map[bool]string{true: "WITH", false: "WITHOUT"}[scripts]
		p := s.loggedIn(scripts)
		s.upload(p, s.badFile("orders.csv"))
		s.follow(p, "2 bad rows")
		p.sees("soon")
		require.Contains(t, p.saves("Save the bad rows"), "WEB-2,soon")
		p.press("Import 3 orders") // without the word to leave two out, so the browser refuses
		p.sees("Leave the 2 bad rows out")
		s.orderpost(3, "order", "WEB-1") // nothing is known about it

		s.upload(p, s.goodFile("orders.csv", prefix))
		s.follow(p, "The first orders as they would be sent")
		p.press("Import 3 orders")
		s.follow(p, "Follow its orders")
		p.click("Follow its orders")
		s.follow(p, "accepted\t3")
		results := p.saves("Save the results")
		for _, no := range []string{"-1", "-2", "-3"} {
			require.Regexp(t, "(?m)^"+prefix+no+",.*accepted", results)
		}
	}
}

// follow waits until the page shows a text. Without JavaScript a person reloads it when
// it says so; earlier, the reload would cut off what was just pressed.
func (s *stage) follow(p *page, text string) {
	s.Helper()
	p.until("the page shows "+text, func() bool {
		if p.bare && !contains(p, text) && contains(p, "Reload the page to update it.") {
			p.goTo(p.at())
		}
		return contains(p, text)
	})
}
