package browser

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
)

// day is that of two people: anna has a workbook from her ERP, and bob must approve what she
// imports.
type day struct {
	*stage
	anna, bob *page
	rows      [][]any // of the workbook, with its header
	files     []string
}

// TestDay: a workbook with three bad cells, which its page names by sheet and cell; the
// corrected workbook, which waits until bob has approved it; its results as a workbook with
// colours; what failed, corrected there and imported again, which bob approves, too; and the
// journal, which has both names.
func TestDay(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil, "ORDERPOST_APPROVALS=imports.sum.amount=100.00")
	s.sandboxSet(http.MethodPut, "config", `{"fault-refuse":0.25,"fault-drop-after":0}`)
	s.people("anna", "importer", "bob", "importer+approve")
	d := &day{stage: s, anna: s.named("anna", true), bob: s.named("bob", true), rows: [][]any{{"order_no", "timeout", "amount", "sku"}}}
	cents := 0
	for i := range 12 {
		amount := 120_50 + i*i*7_31
		d.rows = append(d.rows, []any{fmt.Sprintf("00310%02d", i+1), 30, float64(amount) / 100, fmt.Sprintf("0%d-%d", 100+i, i%3)})
		cents += amount
	}
	for _, p := range []*page{d.anna, d.bob} {
		p.width(1000)
	}

	d.refusesCells()
	march := d.imports(d.workbook(d.rows), 12)
	d.approves(march, fmt.Sprintf("amount\t%d.%02d\t12\t0", cents/100, cents%100), "12", "as ordered")
	results := d.results(march, 10)
	april := d.imports(d.corrected(results), 12)
	d.approves(april, "", "2", "the two of this morning")
	d.results(april, 12)
	d.journaled()
}

// workbook writes the rows by a library that people's programs use, into the sheet Orders.
func (d *day) workbook(rows [][]any) (path string) {
	d.Helper()
	f := excelize.NewFile()
	require.NoError(d, f.SetSheetName("Sheet1", "Orders"))
	for i, row := range rows {
		require.NoError(d, f.SetSheetRow("Orders", fmt.Sprintf("A%d", i+1), &row))
	}
	return d.saved(f)
}

func (d *day) saved(f *excelize.File) (path string) {
	d.Helper()
	path = filepath.Join(d.TempDir(), "march.xlsx")
	require.NoError(d, f.SaveAs(path))
	require.NoError(d, f.Close())
	return path
}

// refusesCells: the ERP left a number where the order number is text, a word where the
// timeout is, and a formula that it did not calculate.
func (d *day) refusesCells() {
	d.Helper()
	bad := slices.Clone(d.rows)
	for i, cell := range map[int]struct {
		column int
		value  any
	}{4: {0, 31004}, 7: {1, "soon"}, 10: {3, nil}} {
		bad[i] = slices.Clone(bad[i])
		bad[i][cell.column] = cell.value
	}
	f, err := excelize.OpenFile(d.workbook(bad))
	require.NoError(d, err)
	require.NoError(d, f.SetCellFormula("Orders", "D11", "VLOOKUP(A11,articles,2)"))
	d.upload(d.anna, d.saved(f))
	d.anna.sees("3 rows of 12 cannot be sent.")
	for cell, content := range map[string]string{"order_no, row 5": "31004", "timeout, row 8": "soon", "sku, row 11": ""} {
		require.Equal(d, content, evaluate[string](d.anna, `document.querySelector('input[aria-label="`+cell+`"]').value`))
	}
	d.shows(d.anna, picture{"console-workbook", "", "light", 0})
	d.anna.accessible("the bad cells of a workbook")
	d.anna.width(1000)
}

// imports uploads a workbook and imports all of its rows, up to the page that says that they
// wait.
func (d *day) imports(path string, orders int) (batch string) {
	d.Helper()
	d.files = append(d.files, path)
	d.upload(d.anna, path)
	d.anna.press(fmt.Sprintf("Import %d orders", orders))
	d.anna.sees("Follow its orders")
	d.anna.click("Follow its orders")
	d.anna.sees("for an approval.")
	at, err := url.Parse(d.anna.at())
	require.NoError(d, err)
	return at.Query().Get("batch")
}

// approves: bob looks at the import that waits for him, and approves it. anna, who has not
// the right to, is refused.
func (d *day) approves(batch, sum, count, note string) {
	d.Helper()
	d.open(d.bob, "/")
	d.bob.sees("a login other than anna")
	first := len(d.files) == 1
	if first {
		d.bob.do(chromedp.EmulateViewport(1000, 740))
		d.shows(d.bob, picture{"console-awaiting", "", "light", 740})
	}
	d.bob.click("march.xlsx")
	d.bob.sees("First orders")
	file, err := os.ReadFile(d.files[len(d.files)-1])
	require.NoError(d, err)
	for _, text := range []string{"Orders that wait\n" + count, fmt.Sprintf("SHA-256 of the file\n%x\n", sha256.Sum256(file)), "Imported by\nanna", sum} {
		require.Contains(d, d.bob.text(), text)
	}
	if first {
		d.shows(d.bob, picture{"console-approval", "", "light", 0})
	}
	d.bob.click("Approve…")
	d.bob.sees("You stand for these orders with your name.")

	d.open(d.anna, "/approval?batch="+batch)
	d.anna.sees("You cannot approve it.")
	require.Contains(d, d.anna.text(), "needs the right approve")
	require.NotContains(d, d.anna.text(), "Approve…")
	d.anna.expects("403")
	require.Equal(d, http.StatusForbidden, d.anna.posts("/approval/approve", "batch", batch, "seen", d.bob.seen()))

	d.bob.fill("Note (optional)", note)
	d.bob.press("Approve the import")
	d.bob.sees("You approved it. Its orders take their turns.")
}

// results waits for the outcomes and saves them as a workbook, in which a colour tells them
// apart.
func (d *day) results(batch string, accepted int) *excelize.File {
	d.Helper()
	d.open(d.anna, "/import?batch="+batch)
	d.anna.sees("Every order has its outcome.")
	if len(d.files) == 1 {
		d.shows(d.anna, picture{"console-outcomes", "", "light", 0})
	}
	f, err := excelize.OpenReader(bytes.NewReader([]byte(d.anna.saves("Save them as a workbook"))))
	require.NoError(d, err)
	rows, err := f.GetRows("Orders")
	require.NoError(d, err)
	require.Len(d, rows, len(d.rows))
	outcome := slices.Index(rows[0], "_outcome")
	require.Positive(d, outcome)
	colours := make(map[string]int)
	for i, row := range rows[1:] {
		require.Equal(d, d.rows[i+1][0], row[0], "an order number is still text")
		colours[row[outcome]+" "+d.colour(f, outcome+1, i+2)]++
	}
	want := map[string]int{"accepted FFC6EFCE": accepted}
	if left := len(d.rows) - 1 - accepted; left > 0 {
		want["rejected FFFFC7CE"] = left
	}
	require.Equal(d, want, colours)
	panes, err := f.GetPanes("Orders")
	require.NoError(d, err)
	require.True(d, panes.Freeze, "the header stays in view")
	return f
}

// colour returns the fill of a cell.
func (d *day) colour(f *excelize.File, column, row int) string {
	d.Helper()
	cell, err := excelize.CoordinatesToCellName(column, row)
	require.NoError(d, err)
	style, err := f.GetCellStyle("Orders", cell)
	require.NoError(d, err)
	return f.Styles.Fills.Fill[*f.Styles.CellXfs.Xf[style].FillID].PatternFill.FgColor.RGB
}

// corrected corrects the article of the orders that the API refused, in the workbook of the
// results.
func (d *day) corrected(f *excelize.File) (path string) {
	d.Helper()
	d.sandboxSet(http.MethodPut, "config", `{"fault-refuse":0}`)
	rows, err := f.GetRows("Orders")
	require.NoError(d, err)
	outcome := slices.Index(rows[0], "_outcome")
	for i, row := range rows {
		if row[outcome] == "rejected" {
			require.NoError(d, f.SetCellStr("Orders", fmt.Sprintf("D%d", i+1), row[3]+"a"))
		}
	}
	return d.saved(f)
}

// journaled: the journal has who imported and who approved what, and the books balance.
func (d *day) journaled() {
	d.Helper()
	d.anna.click("Books & journal")
	d.anna.click("Journal")
	d.anna.sees("as ordered")
	said := d.anna.text()
	for _, act := range []string{"\tanna\timport a file: march.xlsx\n", "\tbob\tapprove: march.xlsx: as ordered\n", "\tanna\tsave results: march.xlsx\n",
		"\tanna\timport a file: march.xlsx\n", "\tbob\tapprove: march.xlsx: the two of this morning\n", "\tanna\tsave results: march.xlsx\n"} {
		i := strings.LastIndex(said, act)
		require.GreaterOrEqual(d, i, 0, "%q, newest first\n%s", act, said)
		said = said[:i]
	}
	evaluate[bool](d.anna, `([...document.querySelectorAll("tr")].find(row => row.innerText.includes("as ordered")).querySelector("summary").click(), true)`)
	d.anna.sees("sum.amount")
	d.shows(d.anna, picture{"console-journal", "", "light", 0})
	d.anna.accessible("an approval in the journal")
	require.Contains(d, d.orderpost(0, "deadletter", "audit"), "The books balance.")
}
