package browser

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var album = flag.String("album", "", "save a screenshot of each step of TestStory in this folder")

// story is one day of a person, with a picture of each step.
type story struct {
	*stage
	*page
	t     *testing.T
	width int64
	steps int
}

func (d *story) shot(name string) {
	d.t.Helper()
	if *album == "" {
		return
	}
	d.steps++
	require.NoError(d.t, os.WriteFile(filepath.Join(*album, fmt.Sprintf("%d-%02d-%s.png", d.width, d.steps, name)), d.screenshot(), 0o600))
}

// imports uploads a file and imports its orders, up to the page that says what became of
// the rows.
func (d *story) imports(file string, orders int) {
	d.t.Helper()
	d.stage.upload(d.page, file)
	d.sees("The first orders as they would be sent")
	d.shot("check")
	d.press(fmt.Sprintf("Import %d orders", orders))
	d.sees("Follow its orders")
	d.shot("imported")
}

// TestStory: a file with errors, mended and imported; the key revoked in the middle of
// the next one; a hold; what failed replayed; the results; and who did all that. A wide
// window and a narrow one, without a step that only one of them can do.
func TestStory(t *testing.T) {
	t.Parallel()
	for _, width := range []int64{wide, narrow} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nil)
			d := &story{stage: s, page: s.loggedIn(true), t: t, width: width}
			d.page.width(width)
			d.imported()
			d.revoked()
			d.replayed()
			d.told()
		})
	}
}

// imported: two of five rows are bad. The person mends them and imports all five.
func (d *story) imported() {
	d.stage.upload(d.page, d.badFile("orders.csv"))
	d.shot("columns")
	d.sees("2 bad rows")
	d.sees(`"soon" is not a whole number`)
	d.shot("bad-rows")
	bad := d.saves("Save the bad rows")
	require.Contains(d.t, bad, "WEB-2,soon")
	require.Contains(d.t, bad, ",30,0015")

	d.imports(d.file("orders.csv", "order_no,timeout,sku,note", "WEB-1,30,0012,", "WEB-2,30,0013,", "WEB-3,30,0014,<b>gift</b>", "WEB-4,30,0015,", "WEB-5,60,0016,"), 5)
	d.click("Follow its orders")
	d.sees("Every order has its outcome.")
	d.sees("accepted\t5")
	d.shot("outcomes")
}

// revoked: the key is revoked in the middle of an import. The gate closes by itself, a
// person holds the fleet, and resumes it with another key.
func (d *story) revoked() {
	d.sandboxSet(http.MethodDelete, "keys/sandbox-key", "")
	d.imports(d.goodFile("more.csv", "MORE"), 3)
	d.click("Overview")
	d.sees("closed")
	d.shot("key-revoked")
	d.click("Fleet")
	d.sees("closed")
	d.shot("key-revoked-fleet")
	d.click("Hold…")
	d.sees("Back, do nothing")
	d.page.fill("Reason (optional)", "the key was revoked; a new one is on its way")
	d.shot("hold")
	d.press("Hold the fleet")
	d.sees("The fleet is held.")
	d.shot("held")

	d.sandboxSet(http.MethodPut, "config", `{"fault-refuse":1}`) // what is sent now will be refused
	d.sandboxSet(http.MethodPut, "keys/sandbox-key", `{"secret":"sandbox-secret"}`)
	d.click("Resume…")
	d.sees("The reason was: the key was revoked; a new one is on its way")
	d.shot("resume")
	d.press("Resume the fleet")
	d.sees("The fleet goes on.")
	d.sees("1 worker sends orders.")
	d.shot("resumed")
	d.click("Overview")
	d.sees("rejected\t3")
	d.shot("refused")
}

// replayed: the API refused three orders by mistake. All of them are sent again.
func (d *story) replayed() {
	d.sandboxSet(http.MethodPut, "config", `{"fault-refuse":0}`)
	d.click("Dead letters")
	d.until("the letters are listed", func() bool {
		if contains(d.page, "all 3 dead letters") {
			return true
		}
		d.goTo(d.at()) // a list with boxes to tick does not update itself
		return false
	})
	d.shot("letters")
	d.click("all 3 dead letters")
	d.press("Replay…")
	d.sees("3 dead letters would be put back into the queue. Nothing was done yet.")
	d.shot("preview")
	d.click("Go on…")
	d.sees("3 dead letters are put back into the queue.")
	d.page.fill("Note (optional)", "refused by mistake")
	d.shot("confirm")
	d.press("Replay")
	d.sees("3 dead letters were put back into the queue.")
	d.shot("job")
	d.click("Imports")
	d.sees("more.csv")
	d.shot("imports")
	d.click("more.csv")
	d.sees("accepted\t3")
	d.shot("import")
	results := d.saves("Save the results")
	for _, no := range []string{"MORE-1", "MORE-2", "MORE-3"} {
		require.Regexp(d.t, "(?m)^"+no+",.*,accepted,", results)
	}
}

// told: the books balance, and the journal has who did what.
func (d *story) told() {
	d.click("Books & journal")
	d.press("Balance the books")
	d.sees("The books balance")
	d.shot("books")
	d.click("Journal")
	d.sees("refused by mistake")
	d.shot("journal")
	said := d.text()
	at := len(said)
	for _, act := range []string{"import a file: orders.csv", "import a file: more.csv", "hold the fleet: the key was revoked; a new one is on its way", "resume the fleet", "replay dead letters: refused by mistake"} {
		i := strings.LastIndex(said[:at], act)
		require.GreaterOrEqual(d.t, i, 0, "%q, newest first\n%s", act, said)
		at = i
	}
	d.goTo("http://" + d.address + "/order?no=MORE-2")
	d.sees("replay dead letters: refused by mistake")
	d.shot("order")
	d.accessible("the end of the story")
}
