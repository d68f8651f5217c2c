package console

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"strings"

	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// A search reads what the console has in memory, and a bounded part of the streams: a
// search must not read millions of messages. Whole order numbers are found wherever they
// are, because the broker keeps an index of those.
const (
	// searchLetters is how many dead letters a search looks at, the newest first.
	searchLetters = 20_000
	// searchPending and searchResults are how many messages of the streams it looks at.
	searchPending, searchResults = 2_000, 5_000
	// searchShown is how many orders, and how many imports and files, it lists.
	searchShown = 50
)

// searchPage is what a search has found.
type searchPage struct {
	Text    string
	Orders  []orderHit
	Imports []importHit
	// MoreOrders and MoreImports: there are more than the page shows.
	MoreOrders, MoreImports bool
	// Unread says what could not be looked at.
	Unread string
	// Last are the last orders, where nothing is searched for.
	Last *lastOrders
}

// Reach says how far a search looks.
func (searchPage) Reach() string {
	return "A whole order number is found wherever it is, as it stands and in upper and lower case. The beginning of a number is looked for among the newest " +
		count(searchLetters) + " dead letters, the oldest " + count(searchPending) + " orders in the queue and the latest " + count(searchResults) +
		" results. Batches and files are found by any part of their names."
}

// orderHit is an order that was found, and where.
type orderHit struct {
	No, Where string
	Link      string
}

// importHit is an import or an upload that was found.
type importHit struct{ Name, Other, What, Link string }

// orderAddress is the address of an order's page.
func orderAddress(no string) string { return "/order?no=" + url.QueryEscape(no) }

// searchFor finds orders by the beginning of their numbers, and imports and files by a part of
// their names. Upper and lower case are the same. It leads to the only thing that it finds.
func searchFor(v *visit, text string) error {
	p := searchPage{Text: text}
	if len(text) > order.MaxOrderNo {
		return badRequest("A search has at most "+count(order.MaxOrderNo)+" bytes.", "Search for the beginning of it.")
	}
	ctx := v.brief()
	if err := searchOrders(ctx, v, &p); err != nil {
		return err
	}
	if err := searchImports(ctx, v, &p); err != nil {
		return err
	}
	if len(p.Orders)+len(p.Imports) == 1 {
		for _, hit := range p.Orders {
			return v.done(hit.Link, "")
		}
		return v.done(p.Imports[0].Link, "")
	}
	return v.render("search", "Find "+shorten(text, 60), p)
}

func searchOrders(ctx context.Context, v *visit, p *searchPage) error {
	found := make(map[string]bool)
	add := func(no, where string) {
		if !found[no] {
			found[no] = true
			p.Orders = append(p.Orders, orderHit{no, where, orderAddress(no)})
		}
	}
	for _, no := range []string{p.Text, strings.ToUpper(p.Text), strings.ToLower(p.Text)} {
		f, err := status.Find(ctx, v.queue(), no)
		if err != nil {
			return err
		}
		switch {
		case len(f.Letters) > 0:
			add(no, "dead letter: "+f.Letters[0].Outcome.String())
		case f.Record != nil:
			add(no, cmp.Or(f.Record.Word, "known"))
		case f.Pending:
			add(no, "in the queue")
		}
	}
	exact := len(p.Orders)
	begins := func(no string) bool { return len(no) >= len(p.Text) && strings.EqualFold(no[:len(p.Text)], p.Text) }
	all, _ := new(deadletter.LetterFilter).Compile(v.s.now())
	index := seeLetters(v)
	for _, row := range index.Page(all, math.MaxUint64, searchLetters, true).Rows {
		if begins(row.OrderNo) {
			add(row.OrderNo, "dead letter: "+row.Outcome.String())
		}
	}
	if !index.Totals().Whole {
		p.Unread = "The dead letters are still being read, so some of them are missing here."
	}
	_, err := status.PendingOrders(ctx, v.queue(), status.PendingFilter{}, 0, 0, searchPending, func(o status.PendingOrder) error {
		if begins(o.OrderNo) {
			add(o.OrderNo, "in the queue: "+o.State)
		}
		return nil
	})
	if err != nil {
		return err
	}
	results := v.queue().Results()
	state, err := results.State(ctx)
	if err != nil {
		return err
	}
	if state.LastSeq > 0 {
		first := max(1, state.LastSeq-min(state.LastSeq, searchResults)+1)
		err = results.Walk(ctx, first, state.LastSeq, func(page []*settle.Message) error {
			for _, m := range page {
				// The audit names what cannot be read.
				if entry, err := queue.DecodeRecord(m); err == nil && begins(entry.Record.OrderNo) {
					add(entry.Record.OrderNo, entry.Record.Word)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(p.Orders[exact:], func(a, b orderHit) int { return strings.Compare(a.No, b.No) })
	if p.MoreOrders = len(p.Orders) > searchShown; p.MoreOrders {
		p.Orders = p.Orders[:searchShown]
	}
	return nil
}

func searchImports(ctx context.Context, v *visit, p *searchPage) error {
	text := strings.ToLower(p.Text)
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), text) }
	list, err := v.s.batches.imports(ctx)
	if err != nil {
		return err
	}
	for _, imp := range list {
		if name, other := importName(imp); has(name) || has(imp.Batch) || has(imp.File) {
			p.Imports = append(p.Imports, importHit{name, other, "import", imports.Address(imp.Batch)})
		}
	}
	if v.s.desk != nil && v.may(Importer) {
		for _, u := range v.s.desk.Looks() {
			if has(u.Name) && u.Import == nil {
				p.Imports = append(p.Imports, importHit{u.Name, u.By.Name, "uploaded file", there(u.ID)})
			}
		}
	}
	if p.MoreImports = len(p.Imports) > searchShown; p.MoreImports {
		p.Imports = p.Imports[:searchShown]
	}
	return nil
}

// showFound answers the address /order without an order number.
func showFound(v *visit) error {
	if text := strings.TrimSpace(v.query("q")); text != "" {
		return searchFor(v, text)
	}
	last, err := findLast(v)
	if err != nil {
		return err
	}
	return v.render("search", "Orders", searchPage{Last: last})
}
