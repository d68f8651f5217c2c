package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Item is an act as a reader sees it: its intention, with the result.
type Item struct {
	// Seq is the sequence of the intention. It is that of the result if the act
	// went on without its intention.
	Seq uint64 `json:"sequence"`
	// Stored is the broker's time of that entry.
	Stored time.Time `json:"stored_at"`
	Entry
	// Ended is the broker's time of the result; zero if there is none.
	Ended time.Time `json:"ended_at,omitzero"`
}

// item returns one entry as an act.
func (e *Entry) item() Item {
	i := Item{Seq: e.seq, Stored: e.stored.UTC(), Entry: *e}
	if e.Step == StepResult {
		i.Ended = i.Stored
	}
	return i
}

// NoResult is what to say of an act without a result.
const NoResult = "no result: it still runs, or waits for an approval, or its program ended, or could not write it"

// Query selects acts. An empty field selects all.
type Query struct {
	// Before is the Next of the page before; 0 = begin with the newest act.
	Before uint64
	// Limit is the largest number of acts of a page; 0 = 50.
	Limit int
	Kind  Kind
	// By selects the actors whose name is By, or begins with By and an @.
	By string
	// OrderNo and Batch select the acts on one order or import. Acts on many
	// orders at once are not among them.
	OrderNo, Batch string
	// Many selects the acts on many orders at once that are not those of one import,
	// of the kind that Kind names.
	Many bool
	// Since and Until bound the broker's time of the intention.
	Since, Until time.Time
}

// Page is a part of the journal, newest first.
type Page struct {
	Items []Item
	// Next is the Before of the next page; 0 = this is the last one. A page may
	// have fewer acts than its limit although others follow.
	Next uint64
	// Unreadable are the errors of entries that this version cannot read.
	Unreadable []error
}

const (
	defaultLimit = 50
	// window is how many entries Read asks for at once, windows how often.
	window  = 256
	windows = 16
)

// Read returns a page of acts, newest first. It reads 4,096 entries at most. A
// broker without a journal has no acts.
func Read(ctx context.Context, q *queue.Queue, query Query) (p Page, err error) {
	if query.Limit <= 0 {
		query.Limit = defaultLimit
	}
	r := reader{s: q.Journal(), query: query, page: &p, ended: make(map[string]*Entry), announced: make(map[string]bool)}
	err = q.Conn.UnlessRefused(ctx, func(ctx context.Context) error {
		if query.OrderNo+query.Batch != "" || query.Many {
			return r.matching(ctx)
		}
		return r.backwards(ctx)
	})
	if errors.Is(err, queue.ErrNoStream) {
		return Page{}, nil
	}
	if err != nil {
		return p, fmt.Errorf("the journal cannot be read: %w", err)
	}
	return p, nil
}

// All passes every act that the query selects to visit, newest first, until
// visit returns false.
func All(ctx context.Context, q *queue.Queue, query Query, visit func(Item) bool) (unreadable []error, err error) {
	for {
		p, err := Read(ctx, q, query)
		unreadable = append(unreadable, p.Unreadable...)
		if err != nil {
			return unreadable, err
		}
		for _, item := range p.Items {
			if !visit(item) {
				return unreadable, nil
			}
		}
		if query.Before = p.Next; query.Before == 0 {
			return unreadable, nil
		}
	}
}

// NameOf returns the name of the intention of the act with an id, for Find; "" if there is none.
func NameOf(ctx context.Context, q *queue.Queue, id string) (name string, err error) {
	if id == "" || strings.ContainsAny(id, ".*> \t\r\n") {
		return "", nil
	}
	s := q.Journal()
	if _, err := s.State(ctx); err != nil { // of a stream that does not exist, nobody answers
		return "", err
	}
	err = s.Matching(ctx, "*.*.*."+id+"."+string(StepIntention), queue.ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			name = s.Token(m)
		}
		return nil
	})
	return name, err
}

// Find returns the act whose intention has a name, and the SHA-256 of that intention in
// hex. It is nil if there is none, or if a replica that lags has answered.
func Find(ctx context.Context, q *queue.Queue, name string) (item *Item, digest string, err error) {
	s := q.Journal()
	halves, err := s.Peek(ctx, []string{name, strings.TrimSuffix(name, string(StepIntention)) + string(StepResult)})
	if err != nil || halves[0] == nil {
		return nil, "", err
	}
	e, err := decode(halves[0], s.Token(halves[0]))
	if err != nil {
		return nil, "", err
	}
	item = new(e.item())
	if halves[1] != nil {
		end, err := decode(halves[1], s.Token(halves[1]))
		if err != nil {
			return nil, "", err
		}
		item.Result, item.Ended = end.Result, end.stored.UTC()
	}
	sum := sha256.Sum256(halves[0].Data)
	return item, hex.EncodeToString(sum[:]), nil
}

// OfOrder returns the acts on one order, and those on its import if batch is
// set, newest first. It reads no other entries.
func OfOrder(ctx context.Context, q *queue.Queue, orderNo, batch string) (items []Item, err error) {
	for _, query := range []Query{{OrderNo: orderNo}, {Batch: batch}} {
		if query.OrderNo+query.Batch == "" {
			continue
		}
		query.Limit = maxOfOrder
		p, err := Read(ctx, q, query)
		if err != nil {
			return items, err
		}
		items = append(items, p.Items...)
	}
	slices.SortStableFunc(items, func(a, b Item) int { return b.Stored.Compare(a.Stored) })
	return items, nil
}

// maxOfOrder is the largest number of acts that OfOrder returns of an order or
// of an import.
const maxOfOrder = 200

// reader reads one page.
type reader struct {
	s     queue.Stream
	query Query
	page  *Page
	ended map[string]*Entry // the results that were read, by id
	// announced holds the ids of the intentions that were read.
	announced map[string]bool
}

// decode returns the readable ones of some messages, newest first, and keeps
// their results.
func (r *reader) decode(messages []*settle.Message) (entries []*Entry) {
	for _, m := range slices.Backward(messages) {
		e, err := decode(m, r.s.Token(m))
		if err != nil {
			r.page.Unreadable = append(r.page.Unreadable, err)
			continue
		}
		r.know(e)
		entries = append(entries, e)
	}
	return entries
}

// know remembers an entry for the other half of its act.
func (r *reader) know(e *Entry) {
	if e.Step == StepResult {
		r.ended[e.ID] = e
	} else {
		r.announced[e.ID] = true
	}
}

// matching reads the acts on one order or import, or those of a kind on many orders.
func (r *reader) matching(ctx context.Context) error {
	pattern := "*." + aboutOrder(r.query.OrderNo) + ".>"
	switch {
	case r.query.Many:
		pattern = string(r.query.Kind) + "." + aboutAll + ".>"
	case r.query.OrderNo == "":
		pattern = "*." + aboutBatch(r.query.Batch) + ".>"
	}
	if _, err := r.s.State(ctx); err != nil { // of a stream that does not exist, nobody answers
		return err
	}
	var all []*settle.Message
	err := r.s.Matching(ctx, pattern, queue.ToTheEnd, func(page []*settle.Message) error {
		all = append(all, page...)
		return nil
	})
	if err != nil {
		return err
	}
	r.take(r.decode(all))
	return nil
}

// backwards reads windows of the stream, newest first, until the page is full.
func (r *reader) backwards(ctx context.Context) error {
	state, err := r.s.State(ctx)
	if err != nil {
		return err
	}
	last := state.LastSeq
	if r.query.Before > 0 {
		last = min(last, r.query.Before-1)
	}
	for range windows {
		if last < state.FirstSeq || last == 0 {
			return nil
		}
		first := max(state.FirstSeq, last-min(last, window)+1)
		var messages []*settle.Message
		err := r.s.Walk(ctx, first, last, func(page []*settle.Message) error {
			messages = append(messages, page...)
			return nil
		})
		if err != nil {
			return err
		}
		entries := r.decode(messages)
		if err := r.findHalves(ctx, entries); err != nil {
			return err
		}
		full := r.take(entries)
		if full || !r.query.Since.IsZero() && len(entries) > 0 && entries[len(entries)-1].stored.Before(r.query.Since) {
			return nil
		}
		last = first - 1
	}
	r.page.Next = last + 1
	return nil
}

// findHalves reads the other halves of acts that are not in the window.
func (r *reader) findHalves(ctx context.Context, entries []*Entry) error {
	var names []string
	for _, e := range entries {
		start := strings.TrimSuffix(e.name, string(e.Step))
		switch {
		case !r.selects(e):
		case e.Step == StepIntention && r.ended[e.ID] == nil:
			names = append(names, start+string(StepResult))
		case e.Step == StepResult && e.Unannounced && !r.announced[e.ID]: // a late write may have stored it
			names = append(names, start+string(StepIntention))
		}
	}
	for some := range slices.Chunk(names, halvesAtOnce) { // they may be large
		found, err := r.s.Peek(ctx, some)
		if err != nil {
			return err
		}
		for _, m := range found {
			if m == nil {
				continue
			}
			if e, err := decode(m, r.s.Token(m)); err == nil {
				r.know(e)
			}
		}
	}
	return nil
}

// halvesAtOnce is how many other halves are read at once.
const halvesAtOnce = 16

// take adds the acts of some entries to the page, and reports whether the page
// is full.
func (r *reader) take(entries []*Entry) (full bool) {
	for _, e := range entries {
		half := e.Step == StepResult && (!e.Unannounced || r.announced[e.ID])
		if half || r.query.Before > 0 && e.seq >= r.query.Before || !r.selects(e) {
			continue
		}
		if len(r.page.Items) == r.query.Limit {
			r.page.Next = r.page.Items[len(r.page.Items)-1].Seq
			return true
		}
		item := e.item()
		if end := r.ended[e.ID]; end != nil {
			item.Result, item.Unannounced, item.Ended = end.Result, end.Unannounced, end.stored.UTC()
		}
		r.page.Items = append(r.page.Items, item)
	}
	return false
}

func (r *reader) selects(e *Entry) bool {
	q := &r.query
	switch {
	case q.Kind != "" && q.Kind != e.Kind,
		q.By != "" && q.By != e.Actor.Name && !strings.HasPrefix(e.Actor.Name, q.By+"@"),
		q.OrderNo != "" && !strings.Contains(e.name, "."+aboutOrder(q.OrderNo)+"."), // JSON may not have its bytes
		q.Batch != "" && !strings.Contains(e.name, "."+aboutBatch(q.Batch)+"."),
		!q.Since.IsZero() && e.stored.Before(q.Since),
		!q.Until.IsZero() && !e.stored.Before(q.Until):
		return false
	}
	return true
}
