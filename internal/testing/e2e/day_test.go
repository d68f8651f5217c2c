package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/console"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/orderpost"
	pages "orderpost/internal/console"
	"orderpost/internal/files/importer"
	"orderpost/internal/testing/xlsxtest"
)

// workbook writes a workbook. Each cell is its XML: xlsxtest.Texts, or one of another kind.
func workbook(t *testing.T, dir string, rows [][]string) (path string) {
	t.Helper()
	all := []string{xlsxtest.Texts("order_no", "timeout", "amount", "sku")}
	for _, row := range rows {
		all = append(all, strings.Join(row, ""))
	}
	path = filepath.Join(dir, "march.xlsx")
	require.NoError(t, os.WriteFile(path, xlsxtest.Book{Sheets: []string{xlsxtest.Rows(all...)}}.Bytes(), 0o600))
	return path
}

// outcomes reads the outcomes in a workbook of results, by order number.
func outcomes(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	h, err := importer.ReadHead(f, importer.Options{File: path}, 100)
	require.NoError(t, err)
	require.Equal(t, importer.FormatXLSX, h.Format)
	at := slices.IndexFunc(h.Columns, func(c importer.Column) bool { return c.Name == "_outcome" })
	require.Positive(t, at)
	all := make(map[string]string)
	for i, no := range h.Columns[0].Samples {
		all[no] = h.Columns[at].Samples[i]
	}
	return all
}

// approver is somebody who is logged in to a console.
type approver struct {
	t       *testing.T
	base    string
	browser http.Client
}

// approvers starts a console for people who may approve, and logs them in.
func approvers(t *testing.T, settings map[string]string, names ...string) (all []*approver) {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	var lines strings.Builder
	for _, name := range names {
		line, err := pages.UserLine(name, "importer+approve", strings.Repeat(name+"-", 4))
		require.NoError(t, err)
		lines.WriteString(line + "\n")
	}
	require.NoError(t, os.WriteFile(users, []byte(lines.String()), 0o600))
	environ := map[string]string{"ORDERPOST_CONSOLE_LISTEN": "127.0.0.1:0", "ORDERPOST_CONSOLE_USERS": users}
	for name, value := range settings {
		environ[name] = value
	}
	p := start(t, "console", console.Run, environ)
	require.Eventually(t, func() bool { return consoleURL.MatchString(p.out.String() + p.errOut.String()) }, patience, pause, "%s", &p.errOut)
	base := consoleURL.FindStringSubmatch(p.out.String() + p.errOut.String())[1]
	for _, name := range names {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		a := &approver{t: t, base: base, browser: http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
		a.sees(a.send("/login", url.Values{"name": {name}, "password": {strings.Repeat(name+"-", 4)}}), "Gate of the fleet")
		all = append(all, a)
	}
	return all
}

func (a *approver) sees(page string, texts ...string) {
	a.t.Helper()
	for _, text := range texts {
		require.Contains(a.t, page, text)
	}
}

func (a *approver) send(path string, form url.Values) (page string) {
	a.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(form.Encode()))
	require.NoError(a.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := a.browser.Do(req)
	require.NoError(a.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(a.t, err)
	require.NoError(a.t, resp.Body.Close())
	require.Equal(a.t, http.StatusOK, resp.StatusCode, "%s: %s", path, text)
	return string(text)
}

var (
	seenField    = regexp.MustCompile(`name="seen" value="(\w+)"`)
	approvalPage = regexp.MustCompile(`on the page (/approval\?batch=\w+)`)
)

// approve approves the import of a page /approval?batch=….
func (a *approver) approve(page, says string) {
	a.t.Helper()
	batch, err := url.Parse(page)
	require.NoError(a.t, err)
	confirm := ""
	require.Eventually(a.t, func() bool { // once a worker has asked for an approval
		confirm = a.send(page, nil)
		return strings.Contains(confirm, "Approve…")
	}, patience, pause)
	confirm = a.send(strings.Replace(page, "/approval?", "/approval/approve?", 1), nil)
	seen := seenField.FindStringSubmatch(confirm)
	require.NotNil(a.t, seen, confirm)
	a.sees(a.send("/approval/approve", url.Values{"batch": {batch.Query().Get("batch")}, "seen": {seen[1]}, "note": {"as ordered"}}), says)
}

// TestADayInATerminal: a workbook with three bad cells, which enqueue names by sheet and cell;
// the corrected one, which waits until two people have approved it in the console; its results
// as a workbook; what the API refused, corrected and dropped into a watched folder, which two
// people approve, too; and the journal, which has their names.
func TestADayInATerminal(t *testing.T) {
	t.Parallel()
	settings, api := api(t, "--seed", "1", "--fault-refuse", "0.25")
	settings["ORDERPOST_APPROVALS"], settings["USER"] = "imports,imports.sum.amount=0", "anna"
	startWorker(t, settings)
	dir := t.TempDir()
	var rows [][]string
	for i := range 12 {
		rows = append(rows, []string{xlsxtest.Texts("00310" + strconv.Itoa(11+i)), `<c><v>30</v></c>`, `<c><v>` + strconv.Itoa(100+i) + `.5</v></c>`, xlsxtest.Texts("010" + strconv.Itoa(i))})
	}
	bad := slices.Clone(rows)
	for i, cell := range map[int]struct {
		column int
		xml    string
	}{3: {0, `<c><v>31014</v></c>`}, 6: {1, xlsxtest.Texts("soon")}, 9: {3, `<c t="e"><v>#N/A</v></c>`}} {
		bad[i] = slices.Clone(bad[i])
		bad[i][cell.column] = cell.xml
	}
	code, _, errOut := importFile(t, settings, workbook(t, dir, bad))
	require.Equal(t, cli.ExitPartial, code, errOut)
	for _, text := range []string{"Orders!A5: column order_no: 31014 is stored as a number", `Orders!B8: column timeout: "soon" is not a whole number`, "Orders!D11: column sku: "} {
		require.Contains(t, errOut, text)
	}

	results := filepath.Join(dir, "out.xlsx")
	p := start(t, "enqueue", enqueue.Run, settings, workbook(t, dir, rows), "--wait", "--results", results)
	people := approvers(t, settings, "bob", "carol")
	require.Eventually(t, func() bool { return approvalPage.MatchString(p.errOut.String()) }, patience, pause, "%s", &p.errOut)
	said := approvalPage.FindStringSubmatch(p.errOut.String())
	people[0].approve(said[1], "You approved it. Another login must approve it, too.")
	require.Empty(t, ledger(t, api), "one of two people is not enough")
	people[1].sees(people[1].send(said[1], nil), `>1272</td>`) // the sum of the amounts, which are texts
	people[1].approve(said[1], "You approved it. Its orders take their turns.")
	require.Equal(t, cli.ExitPartial, p.wait(), &p.errOut)
	found := outcomes(t, results)
	require.Len(t, found, 12)
	var refused [][]string
	for i, row := range rows {
		no := "00310" + strconv.Itoa(11+i)
		switch found[no] {
		case "rejected":
			require.Zero(t, ledger(t, api)[no].Created)
			refused = append(refused, append(slices.Clone(row[:3]), xlsxtest.Texts("010"+strconv.Itoa(i)+"a")))
		default:
			require.Equal(t, "accepted", found[no])
			require.Equal(t, 1, ledger(t, api)[no].Created)
		}
	}
	require.NotEmpty(t, refused)

	change(t, api, `{"fault-refuse":0}`)
	drop := filepath.Join(dir, "drop")
	require.NoError(t, os.Mkdir(drop, 0o700))
	w := start(t, "watch", orderpost.Run, settings, "watch", drop)
	workbook(t, drop, refused)
	require.Eventually(t, func() bool { return approvalPage.MatchString(w.errOut.String()) }, patience, pause, "%s", &w.errOut)
	again := approvalPage.FindStringSubmatch(w.errOut.String())
	people[0].approve(again[1], "You approved it. Another login must approve it, too.")
	people[1].approve(again[1], "You approved it. Its orders take their turns.")
	done := filepath.Join(drop, "done", "march.xlsx.results.xlsx")
	require.Eventually(t, func() bool { _, err := os.Stat(done); return err == nil }, patience, pause, "%s", &w.errOut)
	found = outcomes(t, done)
	require.Len(t, found, len(refused))
	for no, outcome := range found {
		require.Equal(t, "accepted", outcome, no)
	}
	require.Equal(t, cli.ExitDone, w.end())

	code, out, _ := runProgram(t, orderpost.Run, settings, "journal")
	require.Equal(t, cli.ExitDone, code)
	for _, text := range []string{"anna@", "bob", "carol", "as ordered"} {
		require.Contains(t, out, text)
	}
	code, out, errOut = runProgram(t, deadletter.Run, settings, "audit")
	require.Equal(t, cli.ExitDone, code, out+errOut)
	require.Contains(t, out, "The books balance.")
}
