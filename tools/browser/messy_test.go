package browser

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
)

// hand is a person whose clicks are counted.
type hand struct {
	*page
	clicks int
}

func (h *hand) press(text string) {
	h.Helper()
	h.clicks++
	h.page.press(text)
}

func (h *hand) tick(name string) {
	h.Helper()
	h.clicks++
	h.page.tick(name)
}

// choose chooses a file, and uploads it.
func (h *hand) choose(path string) {
	h.Helper()
	h.clicks++
	h.page.upload("File of orders", path)
	h.press("Upload")
}

// types puts a text into a field of a table in place of what it has.
func (h *hand) types(field, text string) {
	h.Helper()
	h.clicks++
	set := fmt.Sprintf(`(f => f !== null && f.checkVisibility() && (f.focus(), f.value = %q, true))(document.querySelector('input[aria-label="%s"]'))`, text, field)
	h.until("the page has "+field, func() bool { return evaluate[bool](h.page, set) })
}

// TestMessyDay: a clean workbook takes three clicks. A messy one, with a title, an empty column, zeros that only a format
// shows, dates, two wrong cells and a row of totals, takes nine, and its corrections survive a console that is killed. What
// the API refused is corrected in the rows themselves.
func TestMessyDay(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.sandboxSet(http.MethodPut, "config", `{"fault-refuse":0,"fault-drop-after":0}`)
	h := &hand{page: s.loggedIn(true)}
	h.width(1000)

	s.open(h.page, "/upload")
	h.choose(s.workbook("clean.xlsx", [][]any{{"order_no", "timeout", "amount"}, {"C-1", 30, 12.5}, {"C-2", 30, 7}}))
	h.press("Import 2 orders")
	h.sees("Follow its orders")
	require.LessOrEqual(t, h.clicks, 4, "the clean file, without typing")

	h.clicks = 0
	s.sandboxSet(http.MethodPut, "config", `{"fault-refuse":1}`)
	s.open(h.page, "/upload")
	h.choose(s.messy("messy.xlsx"))
	h.sees("Row 3 names the columns, and what is above it is left out")
	h.types("timeout, row 5", "60")
	h.types("order_no, row 6", "M-3")
	h.tick("Leave out row 8")
	s.shows(h.page, picture{"console-messy", "", "light", 0})
	h.accessible("a messy workbook")
	h.width(1000)
	h.press("Check with these changes")
	h.sees("2 cells sent otherwise than in the file")
	at := h.at()
	s.console.kill() // what was corrected is on disk
	s.startConsole()
	s.logIn(h.page)
	h.goTo(at)
	h.sees("2 cells sent otherwise than in the file")
	h.press("Send article with the zeros that the sheet shows")
	h.press("Send what is left in these 4 cells of delivery")
	h.press("Import 4 orders")
	h.sees("Follow its orders")
	require.LessOrEqual(t, h.clicks, 12, "the messy file")
	require.Contains(t, h.text(), `"article":"001235"`)

	h.until("all four are refused", func() bool {
		s.open(h.page, regexp.MustCompile(`/upload/[0-9a-f]+`).FindString(at)+"/rows?show=failed")
		return contains(h.page, "4 rows")
	})
	s.shows(h.page, picture{"console-failed", "", "light", 0})
	h.accessible("rows that failed")
	s.sandboxSet(http.MethodPut, "config", `{"fault-refuse":0}`)
	h.types("amount, row 4", "13,00")
	h.types("amount, row 7", "14,00")
	h.press("Check with these changes")
	h.press("Import 4 orders")
	h.sees("2\tEnqueued as corrections of orders that were not created.")
	h.click("Follow its orders")
	h.sees("accepted\t2")
}

// workbook writes rows into the sheet Orders.
func (s *stage) workbook(name string, rows [][]any, change ...func(*excelize.File)) (path string) {
	s.Helper()
	f := excelize.NewFile()
	require.NoError(s, f.SetSheetName("Sheet1", "Orders"))
	for i, row := range rows {
		require.NoError(s, f.SetSheetRow("Orders", fmt.Sprintf("A%d", i+1), &row))
	}
	for _, c := range change {
		c(f)
	}
	path = filepath.Join(s.dir, name)
	require.NoError(s, f.SaveAs(path))
	require.NoError(s, f.Close())
	return path
}

// messy is a workbook as people send it.
func (s *stage) messy(name string) (path string) {
	s.Helper()
	day := func(n int) time.Time { return time.Date(2026, 6, n, 0, 0, 0, 0, time.UTC) }
	return s.workbook(name, [][]any{
		{"Orders of June"}, {},
		{"order_no", "timeout", "amount", "article", nil, "delivery"},
		{"M-1", 30, "12,50", 1235, nil, day(1)},
		{"M-2", "soon", "8,00", 1236, nil, day(2)},
		{" M-3", 30, "9,90", 1237, nil, day(3)},
		{"M-4", 30, "1,00", 1238, nil, day(4)},
		{"Total", nil, "31,40"},
	}, func(f *excelize.File) {
		six := "000000"
		zeros, err := f.NewStyle(&excelize.Style{CustomNumFmt: &six})
		require.NoError(s, err)
		require.NoError(s, f.SetCellStyle("Orders", "D4", "D7", zeros))
	})
}
