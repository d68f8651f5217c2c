package browser

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var album = flag.String("album", "", "save a screenshot of each step of TestStory in this folder")

// story is one day of a person, with a picture of each step.
type story struct {
	*stage
	*page
	steps int
}

func (d *story) shot(name string) {
	d.page.Helper()
	if *album == "" {
		return
	}
	d.steps++
	require.NoError(d.page, os.WriteFile(filepath.Join(*album, fmt.Sprintf("%02d-%s.png", d.steps, name)), d.screenshot(), 0o600))
}

// TestStory: a file with errors, the key revoked in the middle, a hold, and all that
// follows, in one window.
func TestStory(t *testing.T) {
	s := newStage(t, nil)
	d := &story{stage: s, page: s.loggedIn(true)}
	p := d.page
	p.width(1000)
	s.upload(p, s.badFile("orders.csv"))
	d.shot("columns")
	p.press("Check the file")
	p.sees("2 bad rows")
	d.shot("check")
	s.upload(p, s.goodFile("orders.csv", "GOOD"))
	p.press("Check the file")
	p.sees("The first orders as they would be sent")
	d.shot("mended")
	p.press("Import 3 orders")
	p.sees("Follow its orders")
	d.shot("imported")
	p.click("Follow its orders")
	p.sees("accepted\t3")
	d.shot("outcomes")

	s.sandboxSet(http.MethodDelete, "keys/sandbox-key", "")
	s.upload(p, s.goodFile("more.csv", "MORE"))
	p.press("Check the file")
	p.sees("Import 3 orders")
	p.press("Import 3 orders")
	p.sees("Follow its orders")
	p.click("Overview")
	p.sees("closed")
	p.accessible("a fleet whose key was revoked")
	p.width(1000)
	d.shot("key-revoked")
	p.click("Fleet")
	p.sees("closed")
	d.shot("key-revoked-fleet")
	p.click("Hold…")
	p.sees("Back, do nothing")
	p.fill("Reason (optional)", "the key was revoked; a new one is on its way")
	d.shot("hold")
	p.press("Hold the fleet")
	p.sees("The fleet is held.")
	d.shot("held")

	s.sandboxSet(http.MethodPut, "config", `{"fault-refuse":1}`) // what now is sent will be refused
	s.sandboxSet(http.MethodPut, "keys/sandbox-key", `{"secret":"sandbox-secret"}`)
	p.click("Resume…")
	p.sees("Back, do nothing")
	d.shot("resume")
	p.press("Resume the fleet")
	p.sees("The fleet goes on.")
	p.sees("1 worker sends orders.")
	d.shot("resumed")
	p.click("Imports")
	p.sees("more.csv")
	d.shot("imports")
	p.click("Overview")
	p.until("three were refused", func() bool { return contains(p, "rejected\t3") })
	d.shot("refused")

	p.click("Books")
	p.press("Balance the books")
	p.sees("The books balance")
	d.shot("books")
	p.click("Journal")
	p.sees("the key was revoked; a new one is on its way")
	d.shot("journal")
	p.goTo("http://" + s.address + "/order?no=MORE-2")
	p.sees("rejected")
	d.shot("order")
	p.width(narrow)
	for _, path := range []string{"/", "/imports", "/journal", "/fleet"} {
		s.open(p, path)
		d.shot("narrow")
	}
}
