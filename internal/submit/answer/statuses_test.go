package answer

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// documented reads the table of statuses in docs/rules.md: the first row that names a
// status counts.
func documented(t *testing.T, status int) (verdict, pool string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/rules.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| status | verdict | pool | why |\n|---|---|---|---|\n")
	require.True(t, ok, "the table of statuses")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			break
		}
		if namesStatus(t, cells[1], status) {
			return strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])
		}
		require.NotEmpty(t, strings.TrimSpace(cells[4]), "each status has a reason: %s", line)
	}
	t.Fatalf("docs/rules.md says nothing about status %d", status)
	return "", ""
}

// namesStatus reports whether a cell such as "400, 402" or "other 4xx" names the status.
func namesStatus(t *testing.T, cell string, status int) bool {
	for part := range strings.SplitSeq(cell, ",") {
		name := strings.TrimPrefix(strings.TrimSpace(part), "other ")
		require.Regexp(t, regexp.MustCompile(`^[1-5](\d\d|xx)$`), name)
		if name == strconv.Itoa(status) || strings.HasSuffix(name, "xx") && name[0] == strconv.Itoa(status)[0] {
			return true
		}
	}
	return false
}

// Every status does what docs/rules.md says, with the body that is least in its favour
// and with those that can prove it.
func TestEveryStatusDoesWhatTheDocumentSays(t *testing.T) {
	judge := func(status int, body string) Judgement {
		a := Answer{Status: status, Header: http.Header{}, Body: []byte(body), Complete: true}
		a.Examine("ORDER-2026-1")
		return judged(&a)
	}
	const ours, exists, nothing = `{"code":0,"order_no":"ORDER-2026-1"}`, `{"code":"DUPLICATE_ORDER"}`, `{"message":"the market is closed today"}`
	for status := 100; status <= 599; status++ {
		verdict, pool := documented(t, status)
		plain := judge(status, nothing)
		switch verdict {
		case "accepted":
			require.Equal(t, order.Accepted, judge(status, ours).Verdict, status)
			require.Equal(t, order.Unsure, judge(status, "<html>").Verdict, status)
			require.NotEmpty(t, judge(status, "<html>").Hold, status)
			require.Equal(t, order.Unsure, judge(status, "").Verdict, status)
			continue
		case "duplicate":
			require.Equal(t, order.Duplicate, judge(status, ours).Verdict, status)
			require.Equal(t, order.Duplicate, judge(status, exists).Verdict, status)
			require.Equal(t, order.Unsure, plain.Verdict, status)
			require.NotEmpty(t, plain.Hold, status)
			continue
		case "rejected", "retry", "denied": // a body that says the opposite
			for _, body := range []string{exists, `{"message":"the order already exists"}`, `{"order_no":"ORDER-2026-1","status":"created"}`, `{"created":true}`} {
				require.Equal(t, order.Unsure, judge(status, body).Verdict, "%d %s", status, body)
				require.NotEmpty(t, judge(status, body).Hold, status)
			}
		}
		require.Equal(t, verdict, plain.Verdict.String(), status)
		got := "goes on"
		switch {
		case plain.Misplaced, plain.Hold != "":
			got = "held"
		case plain.Throttle:
			got = "throttled"
		case plain.Verdict == order.Denied:
			got = "waits for a key"
		}
		require.Equal(t, pool, got, status)
	}
}

func TestWhatProvesADuplicate(t *testing.T) {
	for body, want := range map[string]order.Verdict{
		`{"code":300301,"message":"an order with this order_no exists"}`:               order.Unsure,
		`{"message":"Order ORDER-2026-1 already exists."}`:                             order.Unsure,
		`{"message":"Duplicate entry 'ORDER-2026-1' for key 'orders.order_no'"}`:       order.Unsure,
		`{"code":"DUPLICATE_ORDER"}`:                                                   order.Duplicate,
		`{"code":"ALREADY_EXISTS","message":"the order was created before"}`:           order.Duplicate,
		`{"error":{"code":"orderAlreadyExists"}}`:                                      order.Duplicate,
		`{"errors":[{"field":"order_no","message":"order_no has already been used"}]}`: order.Unsure,
		`{"order_no":["already exists"]}`:                                              order.Unsure,
		`{"success":false,"status":"error","message":"duplicate order_no"}`:            order.Unsure,
		`{"status":"DUPLICATE"}`:                                                       order.Duplicate,
		`{"order_no":"ORDER-2026-1","status":"new"}`:                                   order.Duplicate,
		`{"order_no":"ORDER-2026-1"}`:                                                  order.Unsure, // and says nothing
		`{"order_no":"ORDER-2026-1","biz":"NO_FUNDS"}`:                                 order.Unsure,
		`{"code":0,"message":"ok","order_no":"ORDER-2026-1"}`:                          order.Duplicate,
		`{"code":0,"data":{"id":9}}`:                                                   order.Unsure, // of the kind that was accepted

		``:                                order.Unsure,
		`{}`:                              order.Unsure,
		`{"code":0}`:                      order.Unsure,
		`<html>409 Conflict</html>`:       order.Unsure,
		`order already exists`:            order.Unsure,
		`{"message":"order exists"`:       order.Unsure, // broken
		`{"code":409,"error":"Conflict"}`: order.Unsure,
		`{"error":"insufficient_balance","message":"order was NOT created"}`: order.Unsure,
		`{"order_no":"ORDER-2026-1","status":"rejected","created":false}`:    order.Unsure,
		`{"order_no":"ORDER-2026-1","error":"insufficient_balance"}`:         order.Unsure,
		`{"order_no":"ORDER-2026-1","message":"insufficient balance"}`:       order.Unsure,
		`{"order_no":"ORDER-2026-1","detail":"the market is closed"}`:        order.Unsure,
		`{"order_no":"ORDER-2026-1","existing":{"order_no":"B-17"}}`:         order.Unsure,
		`{"message":"order B-17 already exists"}`:                            order.Unsure,
		`{"message":"no order exists with this number"}`:                     order.Unsure,
		`{"message":"the order does not exist"}`:                             order.Unsure,
		`{"message":"order rejected: position already closed"}`:              order.Unsure,
		`{"message":"order limit already used"}`:                             order.Unsure,
		`{"code":"DUPLICATE_NONCE"}`:                                         order.Unsure,
		`{"message":"duplicate request"}`:                                    order.Unsure,
		`{"message":"already used"}`:                                         order.Unsure,
		`{"field":"email","message":"already exists"}`:                       order.Unsure,
		`{"errors":[{"field":"email","message":"already exists"}]}`:          order.Unsure,
		`{"errors":{"email":["already exists"]}}`:                            order.Unsure,
		`{"message":"order already exists","created":false}`:                 order.Unsure,
		`{"code":"DUPLICATE","message":"order was not created"}`:             order.Unsure,
		`{"code":40012,"data":{"id":9}}`:                                     order.Unsure,
		`{"code":0,"data":{"id":9,"message":"rejected"}}`:                    order.Unsure,
	} {
		for _, status := range []int{409, 412, 208} {
			answer := func() *Answer {
				a := &Answer{Status: status, Header: http.Header{}, Body: []byte(body), Complete: true}
				a.Examine("ORDER-2026-1")
				return a
			}
			j := judged(answer())
			require.Equal(t, want, j.Verdict, "%d %s: %s", status, body, j.Reason)
			if want != order.Unsure {
				continue
			}
			require.Contains(t, j.Hold, "ORDERPOST_RULES", body)
			_, proposed, _ := strings.Cut(j.Hold, "such as\n")
			judge := Judge{Rules: mustRules(t, "rules:\n"+proposed)}
			require.Equal(t, 1, judge.Judgement(answer(), 1).Rule, proposed)
			judge.Rules = mustRules(t, "rules:\n"+strings.ReplaceAll(proposed, "verdict: unsure", "verdict: duplicate"))
			require.Equal(t, order.Duplicate, judge.Judgement(answer(), 1).Verdict, "the operator knows")
		}
	}
}
