package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// TestPages opens each page that the menu names.
func TestPages(t *testing.T) {
	r := newRig(t)
	r.settles("A-1", answered(order.Accepted, 200, "", `{"id":1}`))
	r.settles("B-1", answered(order.Rejected, 422, "rule 2", `<script>alert(1)</script>`))
	b := r.loggedIn()
	require.LessOrEqual(t, len(menu), 6, "a person reads the whole menu at once")
	for _, item := range menu {
		for i, sub := range item.Pages {
			page := b.open(http.StatusOK, sub.Path)
			require.Contains(t, page, `<a href="`+sub.Path+`" aria-current="page">`)
			require.NotContains(t, page, "<no value>")
			if i > 0 {
				require.Contains(t, page, `<a href="`+item.Path()+`" aria-current="true">`, "its section is marked, too")
			}
			require.Contains(t, page, `name="q" type="search"`, "every page has the search field")
		}
	}
	overview := b.open(http.StatusOK, "/")
	require.Contains(t, text(overview), "No worker is running, so no order is sent.")
	require.Contains(t, text(overview), "Dead letters 1")
	require.Eventually(t, func() bool {
		return strings.Contains(text(b.open(http.StatusOK, "/")), "Settled, last hour 2 ")
	}, patience, 50e6)
}

// TestOrderPage shows all that is known about one order, and nothing that it says
// as markup.
func TestOrderPage(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.settles("B-1", answered(order.Rejected, 422, "rule 2", `<script>alert("answer")</script>`))
	page := r.as("operator").open(http.StatusOK, "/order?no=B-1")
	require.NotContains(t, page, "<script>alert")
	require.Contains(t, page, "&lt;script&gt;alert")
	for _, words := range []string{"rejected", "The API refused this order for good.", "Enqueued", "Dead letter filed", "march.csv:7", "deadletter replay --order-no B-1", "secret_field"} {
		require.Contains(t, text(page), words)
	}
	letter := r.seq("B-1")
	require.Contains(t, page, `href="/letters/`+letter+`/replay"`, "what the advice names has a button")
	require.Contains(t, page, `action="/letters/export"`)
	page = r.as("viewer").open(http.StatusOK, "/order?no=B-1")
	require.NotContains(t, page, "/replay\"")
	require.NotContains(t, page, "secret_field")
	require.Contains(t, text(page), "Bodies of orders are hidden from viewers.")
	require.Contains(t, text(r.as("viewer").open(http.StatusOK, "/order?no=C-1")), "Nothing is known about this order number.")

	q := r.open("w9", true)
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "C-1", Body: []byte(`{"order_no":"C-1","timeout":30}`), ID: "c1", Lane: order.BulkLane})
	require.NoError(t, err)
	require.Contains(t, text(r.as("viewer").open(http.StatusOK, "/order?no=C-1")), "It may be in the waiting room, which holds 1;")
}

// TestOrderNumbersOfAnything: 255 bytes of what JSON can hold.
func TestOrderNumbersOfAnything(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	for _, no := range []string{
		strings.Repeat("x", order.MaxOrderNo), strings.Repeat("%/..&?#+\"'<>\\;= ", 15), strings.Repeat("ü", 127), "\u202e right to left \u0000\n\t\x7f", "*", "🛒/..//../",
	} {
		r.settles(no, answered(order.Rejected, 422, "rule 2", no))
		page := b.open(http.StatusOK, "/order?no="+url.QueryEscape(no))
		require.Contains(t, text(page), "The API refused this order for good.", "%q", no)
		require.NotContains(t, page, "\u202e")
	}
	a := b.do(http.MethodGet, "/order?no="+strings.Repeat("x", 2000), nil)
	require.Equal(t, http.StatusBadRequest, a.StatusCode)
	require.Contains(t, text(a.page), "An order number has at most 255 bytes, and this has 2,000.")
}

// TestLastOrders: the page of orders lists the last ones, newest first, by outcome, import and answer, page by page.
func TestLastOrders(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("viewer")
	require.Contains(t, text(b.open(http.StatusOK, "/order")), "No order matches.")
	r.settles("A-1", answered(order.Accepted, 200, "", `{"id":1}`))
	r.settles("B-1", answered(order.Rejected, 422, "<b>no such article</b>", `{}`))
	r.settles("A-2", answered(order.Accepted, 200, "", `{"id":2}`))
	shown := func(address string, want ...string) {
		t.Helper()
		page := b.open(http.StatusOK, address)
		var found []string
		for _, m := range regexp.MustCompile(`<th scope="row"><a href="/order\?no=([^"]+)">`).FindAllStringSubmatch(page, -1) {
			found = append(found, m[1])
		}
		require.Equal(t, want, found, address)
		require.NotContains(t, page, "<b>no such")
	}
	shown("/order", "A-2", "B-1", "A-1")
	shown("/order?outcome=accepted", "A-2", "A-1")
	shown("/order?answer=SUCH+article", "B-1")
	shown("/order?batch=march&outcome=rejected", "B-1")
	shown("/order?batch=april")
	last, err := queue.LastResult(t.Context(), r.worker)
	require.NoError(t, err)
	shown(fmt.Sprintf("/order?before=%d", last), "B-1", "A-1")
	require.Contains(t, b.open(http.StatusOK, fmt.Sprintf("/order?outcome=accepted&before=%d", last)), `href="/order?outcome=accepted">Newest`)
	b.open(http.StatusBadRequest, "/order?outcome=lost")
	b.open(http.StatusBadRequest, "/order?before=x")
}
