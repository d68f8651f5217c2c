package gateway

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/gateway/door"
	"orderpost/internal/gateway/fileimport"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
	"orderpost/internal/testing/queuetest"
	"orderpost/internal/testing/xlsxtest"
)

// file is a CSV file of n orders.
func file(prefix string, n int) string {
	var b strings.Builder
	b.WriteString("order_no,timeout,price\n")
	for i := range n {
		fmt.Fprintf(&b, "%s-%d,30,%d.50\n", prefix, i, i)
	}
	return b.String()
}

func (a answer) imported(t testing.TB) (i imported) {
	t.Helper()
	require.Equal(t, mediaJSON, a.header.Get("Content-Type"), a.text)
	require.NoError(t, json.Unmarshal([]byte(a.text), &i), a.text)
	return i
}

// bringFile posts a file that is taken, and returns where its import is.
func (r *rig) bringFile(text, query string, headers ...string) (where string) {
	r.t.Helper()
	a := r.do("POST", "/v1/imports"+query, text, append([]string{"Content-Type", mediaCSV}, headers...)...)
	require.Equal(r.t, http.StatusAccepted, a.status, a.text)
	where = a.header.Get("Location")
	require.Equal(r.t, "/v1/imports/"+a.imported(r.t).ID, where)
	return where
}

// becomes waits until an import has a state.
func (r *rig) becomes(where, state string, headers ...string) (i imported) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		i = r.do("GET", where, "", headers...).imported(r.t)
		return i.State == state
	}, patience, 5*time.Millisecond, "%s: %s", state, &last{r, where, headers})
	return i
}

// last prints how an import stands at the end of a wait.
type last struct {
	*rig
	where   string
	headers []string
}

func (l *last) String() string { return l.do("GET", l.where, "", l.headers...).text }

// TestAFileOfOrders is checked and stored, and each row gets its outcome. Another client
// learns nothing of it.
func TestAFileOfOrders(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read, Cancel}, "rival": {Submit, Read, Cancel}, "desk": {ReadAll, Cancel}, "mute": {Submit}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	as := func(name string) []string { return []string{"Authorization", bearer(name)} }
	where := r.bringFile(file("F", 20), "?direct", as("shop")...)
	i := r.becomes(where, "stored", as("shop")...)
	require.Equal(t, 20, i.Rows)
	require.Equal(t, map[string]int{"stored": 20}, i.Fates)
	require.True(t, strings.HasPrefix(i.Batch, "_shop."), i.Batch)
	require.Equal(t, 20, r.stored())
	require.Equal(t, "shop:2", r.do("GET", "/v1/orders?order_no=F-0", "", as("shop")...).outcome(t).Source, "the client, and the line")

	again := r.becomes(r.bringFile(file("F", 20), "?direct", as("shop")...), "stored", as("shop")...)
	require.Equal(t, i.Batch, again.Batch, "the content names the import")
	require.Equal(t, 20, r.stored(), "nothing is stored twice")

	for _, method := range []string{"GET", "DELETE"} {
		hidden, none := r.do(method, where, "", as("rival")...), r.do(method, "/v1/imports/0123456789abcdef", "", as("rival")...)
		require.Equal(t, http.StatusNotFound, hidden.status)
		require.Equal(t, none.text, hidden.text, "it tells that there is an import")
	}
	require.Equal(t, "unknown-import", r.do("GET", where+"/results", "", as("rival")...).problem(t).name())
	require.Equal(t, "unknown-order", r.do("GET", "/v1/orders?order_no=F-0", "", as("rival")...).problem(t).name())
	require.Equal(t, "forbidden", r.do("GET", where, "", as("mute")...).problem(t).name())
	require.Equal(t, "forbidden", r.do("POST", "/v1/imports", file("X", 1), append(as("desk"), "Content-Type", mediaCSV)...).problem(t).name())

	r.settle(20)
	require.Eventually(t, func() bool {
		return r.do("GET", where, "", as("desk")...).imported(t).Outcomes["accepted"] == 20
	}, patience, 20*time.Millisecond)
	a := r.do("GET", where+"/results", "", as("shop")...)
	require.Equal(t, http.StatusOK, a.status, a.text)
	require.Equal(t, "text/csv; charset=utf-8", a.header.Get("Content-Type"))
	rows, err := csv.NewReader(strings.NewReader(a.text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 21)
	require.Equal(t, []string{"order_no", "timeout", "price", "_outcome"}, rows[0][:4])
	require.Equal(t, []string{"F-0", "30", "0.50", "accepted"}, rows[1][:4])
	acts, err := journal.Read(t.Context(), r.worker, journal.Query{Batch: i.Batch})
	require.NoError(t, err)
	require.Len(t, acts.Items, 2)
	require.Equal(t, journal.Actor{Name: "client shop", Known: journal.Token}, acts.Items[0].Actor)
}

// TestAFileWithProblems stores nothing, and says where they are. The answers to its
// questions are parameters.
func TestAFileWithProblems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := "order_no,timeout,price\nQ-1,30,1.5\nQ-2,soon,2.5\nQ-1,30,3.5\n"
	i := r.becomes(r.bringFile(text, ""), "refused")
	require.Equal(t, 422, i.Problem.Status)
	require.Equal(t, typePrefix+invalidImport.name, i.Problem.Type)
	require.Equal(t, "line 3, column 2", i.Problem.Where)
	require.Equal(t, 2, i.Invalid)
	require.Equal(t, []int{3, 2, 4}, []int{i.Bad[0].Line, i.Bad[0].Column, i.Bad[1].Line})
	require.Equal(t, []string{"timeout", "soon"}, []string{i.Bad[0].Name, i.Bad[0].Value})
	require.Equal(t, "duplicate_order_no", i.Bad[1].Code)

	text = "order_no;timeout;price\nQ-1;30;1,50\nQ-2;30;2,50\n"
	i = r.becomes(r.bringFile(text, "?type=price=number"), "refused")
	require.Equal(t, []string{"price=decimal_comma"}, i.Bad[0].Accept)
	require.NotContains(t, i.Bad[0].Detail, "--accept")
	require.Zero(t, r.stored())
	i = r.becomes(r.bringFile(text, "?type=price=number&direct&accept="+url.QueryEscape(i.Bad[0].Accept[0])), "stored")
	require.Equal(t, map[string]int{"stored": 2}, i.Fates)

	trailer := "?direct&trailer=" + url.QueryEscape("{value: T, rows: 2}")
	i = r.becomes(r.bringFile("order_no,timeout\nT-1,30\nT,2\n", trailer), "refused")
	require.Contains(t, i.Problem.Seen, "orders to send: 1, and 2 were expected")
	i = r.becomes(r.bringFile("order_no,timeout\nT-1,30\n", trailer), "refused")
	require.Equal(t, "trailer", i.Bad[0].Code)
	i = r.becomes(r.bringFile("order_no,timeout\nT-1,30\nT,1\n", trailer), "stored")
	require.Equal(t, map[string]int{"stored": 1}, i.Fates)

	for name, c := range map[string]struct{ body, query, where, do string }{
		"no number":  {"nr,timeout\n1,30\n", "", "column order_no", "rename=COLUMN=order_no"},
		"no timeout": {"order_no\n1\n", "", "column timeout", "set=timeout=30"},
		"empty":      {"", "", "body", ""},
		"binary":     {"%PDF-1.7 order_no", "", "body", ""},
	} {
		a := r.do("POST", "/v1/imports"+c.query, c.body, "Content-Type", mediaCSV)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", name, a.text)
		p := a.problem(t)
		require.Equal(t, c.where, p.Where, name)
		require.Contains(t, p.Do, c.do, name)
	}
	i = r.becomes(r.bringFile(`{"order_no":"N-1","timeout":30}`+"\n{]\n", "", "Content-Type", mediaLines), "refused")
	require.Equal(t, 2, i.Bad[0].Line)
	kept, err := filepath.Glob(filepath.Join(r.broker.Dir, "imports", "*", "upload.json"))
	require.NoError(t, err)
	require.Len(t, kept, 7, "what was refused at once is not kept")
}

// TestAWorkbookOfOrders is read as it came: a sheet is chosen, and a bad cell is named by
// sheet and cell.
func TestAWorkbookOfOrders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const media = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	rows := func(timeout string) string {
		return xlsxtest.Rows(xlsxtest.Texts("order_no", "timeout"), xlsxtest.Texts("W-1", timeout))
	}
	book := string(xlsxtest.Book{Sheets: []string{rows("30"), rows("soon")}, Names: []string{"June", "July"}}.Bytes())
	a := r.do("POST", "/v1/imports", book, "Content-Type", media)
	require.Equal(t, http.StatusUnprocessableEntity, a.status, a.text)
	require.Contains(t, a.text, "June")
	i := r.becomes(r.bringFile(book, "?sheet=July", "Content-Type", media), "refused")
	require.Equal(t, []any{"July!B2", 2, 2, "timeout"}, []any{i.Bad[0].Place, i.Bad[0].Line, i.Bad[0].Column, i.Bad[0].Name})
	i = r.becomes(r.bringFile(book, "?sheet=June&direct", "Content-Type", media), "stored")
	require.Equal(t, map[string]int{"stored": 1}, i.Fates)
	require.Equal(t, 1, r.stored())
	a = r.do("POST", "/v1/imports", "order_no,timeout\n", "Content-Type", media)
	require.Equal(t, http.StatusUnprocessableEntity, a.status)
	require.Contains(t, a.problem(t).Detail, "this is no workbook (.xlsx)")
}

// TestParametersOfAnImport are those of enqueue; a wrong one is named, and nothing is kept.
func TestParametersOfAnImport(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) { o.bodyTimeout, o.Log = 300*time.Millisecond, zerolog.Nop() })
	in := func(hours time.Duration) string { return time.Now().UTC().Add(hours * time.Hour).Format(time.RFC3339) }
	for query, where := range map[string]string{
		"skip-invalid":                      "parameter skip-invalid",
		"type=price":                        "parameter type",
		"type=price=float":                  "parameters",
		"empty=nothing":                     "parameters",
		"encoding=ebcdic":                   "parameter encoding",
		"delimiter=ab":                      "parameter delimiter",
		"batch=a.b":                         "parameter batch",
		"batch=" + strings.Repeat("x", 101): "parameter batch",
		"lane=a+b":                          "parameter lane",
		"deadline=tomorrow":                 "parameter deadline",
		"deadline=2020-01-01T00:00:00Z":     "parameter deadline",
		"deadline=" + in(1) + "&not-before=" + in(2): "parameter deadline",
		"not-before=tomorrow":                        "parameter not-before",
		"not-before=2020-01-01T00:00:00Z":            "parameter not-before",
		"rate=-1":                                    "parameter rate",
		"rate=0":                                     "parameter rate",
		"rate=Inf":                                   "parameter rate",
		"rate=NaN":                                   "parameter rate",
		"direct=perhaps":                             "parameter direct",
		"direct&lane=night":                          "parameter direct",
		"canary=-1":                                  "parameter canary",
		"a=%zz":                                      "parameters",
	} {
		p := r.do("POST", "/v1/imports?"+query, file("P", 1), "Content-Type", mediaCSV).problem(t)
		require.Equal(t, where, p.Where, query)
		require.NotContains(t, p.Detail, "--", query)
		require.NotEmpty(t, p.Do, query)
	}
	for name, parameter := range map[string]string{headerDeadline: "deadline", headerNotBefore: "not-before", headerLane: "lane", headerBatch: "batch"} {
		p := r.do("POST", "/v1/imports", file("P", 1), "Content-Type", mediaCSV, name, in(1)).problem(t)
		require.Equal(t, "header "+name, p.Where)
		require.Contains(t, p.Detail, "give the parameter "+parameter)
	}
	for _, h := range [][]string{{"Content-Type", "application/pdf"}, {"Content-Type", mediaCSV, "Content-Encoding", "br"}} {
		a := r.do("POST", "/v1/imports", file("P", 1), h...)
		require.Equal(t, "media-type", a.problem(t).name())
		require.Equal(t, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet, application/x-ndjson, text/csv", a.header.Get("Accept-Post"))
	}
	const head = "POST /v1/imports HTTP/1.1\nHost: localhost\nContent-Type: text/csv\n"
	require.Equal(t, "too-large", r.dial().send(head+"Content-Length: 1073741825\n\n").answer().problem(t).name())
	require.Equal(t, "slow-body", r.dial().send(head+"Content-Length: 100\n\norder_no,timeout").answer().problem(t).name())
	require.Equal(t, "bad-request", r.dial().send(head+"Transfer-Encoding: chunked\n\nzz\n").answer().problem(t).name())
	kept, err := filepath.Glob(filepath.Join(r.broker.Dir, "imports", "*", "upload.json"))
	require.NoError(t, err)
	require.Empty(t, kept)

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write([]byte("nr;sum\n\u00e4;1\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	where := r.bringFile(packed.String(), "?rename=nr=order_no&set=timeout=30&batch=monday&lane=bulk&not-before="+later.Format(time.RFC3339), "Content-Encoding", "gzip")
	i := r.becomes(where, "stored")
	require.Equal(t, "_local.monday", i.Batch)
	o := r.do("GET", "/v1/orders?order_no=%C3%A4", "").outcome(t)
	require.Equal(t, []string{"pending", "_local.monday"}, []string{o.State, o.Batch})
	imp, err := imports.ReadImport(t.Context(), r.worker, i.Batch)
	require.NoError(t, err)
	require.Equal(t, later, imp.NotBefore)
	i = r.becomes(r.bringFile(file("U", 1), "?lane=slow"), "failed")
	require.Contains(t, i.Error, `unknown lane "slow"`)
}

// TestProblemsOfFiles say what to do, and nothing of the door's inside: neither the error of the
// socket nor the name that the file has there, which is the client's.
func TestProblemsOfFiles(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients, o.bodyTimeout = path, 300*time.Millisecond })
	bring := func(body, media string) answer {
		return r.do("POST", "/v1/imports", body, "Content-Type", media, "Authorization", bearer("shop"))
	}
	half := func(sent func(*raw)) answer {
		c := r.dial().send("POST /v1/imports HTTP/1.1\nHost: localhost\nAuthorization: %s\nContent-Type: text/csv\nContent-Length: 100\n\norder_no,", bearer("shop"))
		sent(c)
		return c.answer()
	}
	const again = "correct the file, or the parameters that say how to read it, and send it again"
	const brokenOff = "the upload broke off after 9 bytes, and nothing was kept"
	for name, c := range map[string]struct {
		answer          answer
		kind            kind
		where, seen, do string
	}{
		"slow":    {half(func(*raw) {}), slowBody, "body", brokenOff, "upload the file again"},
		"cut off": {half(func(c *raw) { require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite()) }), badRequest, "body", brokenOff, "upload the file again"},
		"empty":   {bring("", mediaCSV), invalidImport, "body", "the file is empty", again},
		"a PDF":   {bring("%PDF-1.7", mediaCSV), invalidImport, "body", "this is a PDF, not text", "a PDF has no rows; export the data as CSV where the PDF was made"},
		"header":  {bring("order_no,timeout,n,n\n", mediaCSV), invalidImport, "line 1, column 4", `the name "n" is taken by column 3 already`, again},
		"charset": {bring(file("C", 1), mediaCSV+"; charset=klingon"), badRequest, "header Content-Type",
			`"klingon" is none of auto, utf-8, utf-16le, utf-16be, windows-1252, windows-1250, windows-1251, macintosh, shift_jis`, "give a charset of these, or the parameter encoding"},
	} {
		p := c.answer.problem(t)
		require.Equal(t, []string{c.kind.name, c.where, c.seen, c.do}, []string{p.name(), p.Where, p.Seen, p.Do}, name)
	}
	where := bring("order_no,timeout,n\nA-1,30,\xfc\nA-2,30,\x81\n", mediaCSV).header.Get("Location")
	i := r.becomes(where, "refused", "Authorization", bearer("shop"))
	require.Contains(t, i.Problem.Seen, "byte 0xFC, character 1")
	p := r.do("GET", where+"/results", "", "Authorization", bearer("shop")).problem(t)
	require.Equal(t, []string{notReady.name, "import", "the file was not imported, so it has no results", "GET the import to see how it stands"}, []string{p.name(), p.Where, p.Seen, p.Do})
}

// TestWithdrawingAnImport withdraws what waits, and removes a file of which nothing is stored.
func TestWithdrawingAnImport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	where := r.bringFile("order_no,timeout\n1,x\n", "")
	r.becomes(where, "refused")
	a := r.do("GET", where+"/results", "")
	require.Equal(t, http.StatusConflict, a.status, a.text)
	require.Equal(t, "not-ready", a.problem(t).name())
	require.Equal(t, "cancelled", r.do("DELETE", where, "").imported(t).State)
	require.Equal(t, "unknown-import", r.do("GET", where, "").problem(t).name())

	where = r.bringFile(file("W", 5), "?not-before="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	r.becomes(where, "stored")
	a = r.do("DELETE", where, "")
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, a.status, a.text)
	i := r.becomes(where, "cancelled")
	require.Equal(t, 5, i.Withdrawn.Cancelled+i.Withdrawn.Open, "%+v", i)
	again := r.do("DELETE", where, "")
	require.Equal(t, http.StatusAccepted, again.status, again.text)
}

// TestFilesThatArriveCount: a client that sends many files at once has no more of them under
// way, and no larger share of the room, than one that sends them one after the other.
func TestFilesThatArriveCount(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit}, "rival": {Submit}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	under := 0
	begin := func(bytes int) {
		body, more := io.Pipe()
		t.Cleanup(func() { _ = more.Close() })
		go func() {
			_, _ = r.try("POST", "/v1/imports", body, "Content-Type", mediaCSV, "Authorization", bearer("shop"))
		}()
		_, err := io.WriteString(more, strings.Repeat("order_no,timeout\n", bytes/17+1))
		require.NoError(t, err)
		under++
		require.Eventually(t, func() bool { return r.open("import") == float64(under) }, patience, time.Millisecond)
	}
	bring := func(name string) answer {
		return r.do("POST", "/v1/imports", file("A", 1), "Content-Type", mediaCSV, "Authorization", bearer(name))
	}
	begin(33 << 20) // of 64 MiB
	require.Eventually(t, func() bool { return bring("shop").status == http.StatusInsufficientStorage }, patience, 10*time.Millisecond)
	require.Equal(t, http.StatusAccepted, bring("rival").status)
}

// TestSixteenFilesAtOnce: those that arrive count as unfinished.
func TestSixteenFilesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 16 {
		body, more := io.Pipe()
		t.Cleanup(func() { _ = more.Close() })
		go func() { _, _ = r.try("POST", "/v1/imports", body, "Content-Type", mediaCSV) }()
		_, err := io.WriteString(more, "order_no,timeout\n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return r.open("import") == float64(n+1) }, patience, time.Millisecond)
	}
	require.Eventually(t, func() bool { // the last of them counts a moment after its request began
		return r.do("POST", "/v1/imports", file("A", 1), "Content-Type", mediaCSV).status == http.StatusTooManyRequests
	}, patience, time.Millisecond)
}

// TestWithdrawingASettledImport withdraws nothing, says so, and leaves the import as it was.
func TestWithdrawingASettledImport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	where := r.bringFile(file("S", 3), "?direct")
	r.becomes(where, "stored")
	r.settle(3)
	a := r.do("DELETE", where, "")
	require.Equal(t, http.StatusOK, a.status, a.text)
	for _, i := range []imported{a.imported(t), r.do("GET", where, "").imported(t)} {
		require.Equal(t, "stored", i.State)
		require.Equal(t, &door.Withdrawn{}, i.Withdrawn)
		require.Empty(t, i.Error)
	}
}

// TestAnImportOutlivesItsProcess: what was answered with 202 goes on after a restart.
func TestAnImportOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.broker.Stop() // nothing can be stored
	where := r.bringFile(file("R", 500), "?direct")
	require.Eventually(t, func() bool { return r.do("GET", where, "").imported(t).Rows == 500 }, patience, time.Millisecond)
	r.Stop()
	r.broker.Restart(t)
	q := queuetest.Open(t, r.broker, "test", queuetest.AsCommand)
	s, err := Listen(t.Context(), Options{Config: Config{Listen: "127.0.0.1:0", KeepAlive: time.Minute, ImportTotal: 64}, Files: fileimport.Open, Queue: q, DataDir: r.broker.Dir,
		Metrics: r.Metrics, Log: zerolog.New(r.log), DrainTimeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	r.Server = s
	i := r.becomes(where, "stored")
	require.Equal(t, map[string]int{"stored": 500}, i.Fates)
}

// TestADoorThatTakesNoFiles says why.
func TestADoorThatTakesNoFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	for dir, want := range map[string]string{"": "no data folder (ORDERPOST_DATA_DIR)", r.broker.Dir: "another process uses the folder", blocked: "not a directory"} {
		s, err := Listen(t.Context(), Options{Config: Config{Listen: "127.0.0.1:0", KeepAlive: time.Minute, ImportTotal: 64}, Files: fileimport.Open, Queue: r.worker, DataDir: dir,
			Metrics: ops.NewGateway(prometheus.NewRegistry(), MetricsOptions()), Log: zerolog.New(r.log), DrainTimeout: time.Second})
		require.NoError(t, err)
		other := *r
		other.Server = s
		for _, a := range []answer{other.do("POST", "/v1/imports", file("X", 1), "Content-Type", mediaCSV), other.do("GET", "/v1/imports/0123456789abcdef", "")} {
			require.Equal(t, http.StatusNotImplemented, a.status, a.text)
			require.Contains(t, a.problem(t).Seen, want)
		}
		s.Stop()
	}
}

// TestOneClientsFiles leave room for those of the others.
func TestOneClientsFiles(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read}, "rival": {Submit, Read}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients, o.ImportTotal = path, 1 })
	noise := "order_no,timeout,x\n"
	for i := range 9000 {
		noise += fmt.Sprintf("K-%d,30,%x\n", i, hashed(fmt.Sprint(i)))
	}
	for range 2 {
		r.bringFile(noise, "", "Authorization", bearer("shop"))
	}
	a := r.do("POST", "/v1/imports", noise, "Content-Type", mediaCSV, "Authorization", bearer("shop"))
	require.Equal(t, http.StatusInsufficientStorage, a.status, a.text)
	require.Equal(t, "client shop", a.problem(t).Where)
	r.bringFile(file("L", 1), "", "Authorization", bearer("rival"))
	a = r.do("POST", "/v1/imports", noise, "Content-Type", mediaCSV, "Authorization", bearer("rival"))
	require.Equal(t, "no-room", a.problem(t).name(), "the disk is bounded for all")
}
