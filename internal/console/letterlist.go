package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// letterRows is how many letters a page lists.
	letterRows = 50
	// groupRows is how many groups a page lists unless all are asked for.
	groupRows = 12
)

// letterList is the page of dead letters.
type letterList struct {
	deadletter.LetterTotals
	Filter   deadletter.LetterFilter
	Filtered bool
	Wrong    []string
	Outcomes []outcomeChoice
	*deadletter.LetterSelection
	Shown []letterGroup
	// MoreGroups counts the groups that are not shown, AllGroups is the address that
	// shows them.
	MoreGroups int
	AllGroups  string
	Rows       []letterRow
	// Newer and Older are the addresses of the neighbouring pages; "" = none.
	Newer, Older string
	Begin        string
	// Query is the filter as the query of an address, for acts on all that match.
	Query string
	// Choose shows a box before each letter, for acts on a selection. Settles: the
	// person may do more than export.
	Choose, Settles bool
	// From and Before are the place of the page in the list, as its address has it.
	From, Before string
	// NothingTicked: a form came that is about ticked letters, and none was.
	NothingTicked bool
}

// outcomeChoice is an outcome in the filter.
type outcomeChoice struct {
	Outcome order.Outcome
	Chosen  bool
}

// letterRow is a letter with what people call its import.
type letterRow struct {
	deadletter.LetterRow
	Import string
	// Known: the import has a page.
	Known bool
}

// letterGroup is a group with the address of its letters.
type letterGroup struct {
	deadletter.LetterGroup
	Link string
}

// readFilter reads the filter of an address or a form, by the names of the flags of
// deadletter list.
func readFilter(values url.Values) deadletter.LetterFilter {
	list := func(name string) (out []string) {
		for _, text := range values[name] {
			for _, word := range strings.Split(text, ",") {
				if word = strings.TrimSpace(word); word != "" {
					out = append(out, word)
				}
			}
		}
		return out
	}
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return deadletter.LetterFilter{Outcomes: list("outcome"), Statuses: list("status"), Reason: text("reason"), Answer: text("answer"), Batch: text("batch"),
		OrderNo: values.Get("order-no"), Since: text("since"), Until: text("until")}
}

// lettersAt is the address of the list with a filter and more parameters.
func lettersAt(f deadletter.LetterFilter, more ...string) string {
	values := url.Values(f.Values())
	maps.Copy(values, parameters(more...))
	return address("/letters", values)
}

func showLetters(v *visit) error {
	index := seeLetters(v)
	p := letterList{Filter: readFilter(v.URL.Query()), LetterTotals: index.Totals(), LetterSelection: &deadletter.LetterSelection{}}
	p.Filtered, p.Begin = !p.Filter.Empty(), lettersAt(p.Filter)
	matcher, wrong := p.Filter.Compile(time.Now())
	for _, w := range wrong {
		p.Wrong = append(p.Wrong, fmt.Sprintf("%s: %v.", fieldNames[w.Field], w.Err))
	}
	for _, o := range order.Outcomes() {
		if o.NeedsLetter() {
			p.Outcomes = append(p.Outcomes, outcomeChoice{o, slices.Contains(p.Filter.Outcomes, o.String())})
		}
	}
	from, back, err := placeOf(v)
	if err != nil {
		return err
	}
	if len(p.Wrong) > 0 {
		v.status = http.StatusBadRequest
		return v.render("letters", "Dead letters", p)
	}
	page := index.Page(matcher, from, letterRows, back)
	if back && !page.Before { // the first page is always a full one
		page = index.Page(matcher, 0, letterRows, false)
	}
	rows := page.Rows
	if v.s.watch.queue.Conn.Connected() { // otherwise the page shows what was known last
		ctx := v.within(lettersTimeout)
		if now, err := index.Rows(ctx, matcher, rows); err != nil {
			index.note(err)
		} else {
			rows = now
		}
	}
	p.LetterSelection = index.selection(p.Filter, matcher)
	for _, row := range rows {
		name, known := v.s.batches.name(v.Context(), row.Batch)
		p.Rows = append(p.Rows, letterRow{row, name, known})
	}
	if n := len(page.Rows); n > 0 {
		if page.Before {
			p.Older = lettersAt(p.Filter, "before", strconv.FormatUint(page.Rows[0].Seq, 10))
		}
		if page.After {
			p.Newer = lettersAt(p.Filter, "from", strconv.FormatUint(page.Rows[n-1].Seq+1, 10))
		}
	} else if page.Before {
		p.Older = lettersAt(p.Filter, "before", strconv.FormatUint(from, 10))
	}
	p.group(v.query("groups") == "all")
	p.Query = url.Values(p.Filter.Values()).Encode()
	p.Choose = v.may(Importer) && p.Whole
	p.Settles = v.may(Operator)
	p.From, p.Before, p.NothingTicked = v.query("from"), v.query("before"), v.query("ticked") == "none"
	v.live = !p.Choose // a refresh would take the ticks away
	return v.render("letters", "Dead letters", p)
}

// placeOf reads where a page of the list begins or ends.
func placeOf(v *visit) (from uint64, back bool, err error) {
	text := v.query("from")
	if before := v.query("before"); before != "" {
		text, back = before, true
	}
	if text == "" {
		return 0, false, nil
	}
	if from, err = strconv.ParseUint(text, 10, 64); err != nil {
		err = badRequest("The page that this link names does not exist.", "Begin with the oldest dead letters.")
	}
	return from, back, err
}

// group lists the groups.
func (p *letterList) group(all bool) {
	groups := p.Groups
	if more := len(groups) - groupRows; more > 1 && !all {
		groups, p.MoreGroups, p.AllGroups = groups[:groupRows], more, lettersAt(p.Filter, "groups", "all")
	}
	for _, g := range groups {
		f := p.Filter
		f.Outcomes = []string{g.Outcome.String()}
		if g.Reason != "" && g.Reason != deadletter.OtherReasons {
			f.Reason = g.Reason
		}
		if g.Said != "" {
			f.Answer = g.Said
		}
		if g.Status != 0 {
			f.Statuses = []string{strconv.Itoa(g.Status)}
		}
		p.Shown = append(p.Shown, letterGroup{g, lettersAt(f)})
	}
}

// fieldNames are the labels of the filter's fields.
var fieldNames = map[string]string{"outcome": "Outcome", "status": "Status", "since": "Filed since", "until": "Filed before"}

const (
	// lookFor is how long a page may take to bring the index up to date. The rest is
	// read in the background.
	lookFor = 50 * time.Millisecond
	// lettersTimeout bounds what a page waits for the broker.
	lettersTimeout = time.Second
	// lettersRetry is when reading goes on that has failed.
	lettersRetry = time.Second
)

// letterWatch is the index of dead letters that all pages share. Pages bring it up to
// date, at most once a second; what takes longer is read in the background.
type letterWatch struct {
	*deadletter.LetterIndex
	log zerolog.Logger

	turn sync.Mutex // whoever follows the stream
	at   time.Time  // when that was last done; turn guards it
	more chan struct{}

	mu   sync.Mutex
	kept map[string]keptSelection // by the filter's address
}

// keptSelection is a selection that the next refresh of a page shows again, if no
// letter came or went.
type keptSelection struct {
	*deadletter.LetterSelection
	at time.Time
}

const (
	// keepSelection bounds how old ages in a filter, such as 24h, may be.
	keepSelection = 10 * time.Second
	// maxKept bounds the selections that are kept.
	maxKept = 32
)

func newLetters(q *queue.Queue, log zerolog.Logger) *letterWatch {
	return &letterWatch{LetterIndex: deadletter.NewLetterIndex(q), log: log, more: make(chan struct{}, 1), kept: make(map[string]keptSelection)}
}

// selection counts what a filter selects.
func (l *letterWatch) selection(f deadletter.LetterFilter, m *deadletter.LetterMatcher) *deadletter.LetterSelection {
	key := lettersAt(f)
	l.mu.Lock()
	kept, found := l.kept[key]
	l.mu.Unlock()
	if age := time.Since(kept.at); found && (age < freshFor || age < keepSelection && kept.Version == l.Version()) {
		return kept.LetterSelection
	}
	s := keptSelection{l.Select(m), time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) >= maxKept {
		clear(l.kept)
	}
	l.kept[key] = s
	return s.LetterSelection
}

// look brings the index up to date, unless that is being done or was just done. It
// reports whether the broker has answered.
func (l *letterWatch) look(ctx context.Context) (answered bool) {
	if !l.turn.TryLock() {
		return false
	}
	defer l.turn.Unlock()
	if time.Since(l.at) < freshFor {
		return false
	}
	// The reading goes on for the others if this person closes the page.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lettersTimeout)
	defer cancel()
	more, err := l.Follow(ctx, lookFor)
	l.note(err)
	l.at = time.Now()
	if more || err != nil {
		poke(l.more)
	}
	return err == nil
}

// anew makes the next page read anew.
func (l *letterWatch) anew() {
	l.turn.Lock()
	l.at = time.Time{}
	l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.kept)
}

func (l *letterWatch) note(err error) {
	if err != nil && !away(err) {
		l.log.Warn().Err(err).Msg("dead letters could not be read for the console")
	}
}

// run reads what a page began and left, until ctx ends.
func (l *letterWatch) run(ctx context.Context, watched func() bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.more:
		}
		for more := true; more && ctx.Err() == nil && watched(); {
			l.turn.Lock()
			var err error
			more, err = l.Follow(ctx, followFor)
			l.at = time.Now()
			l.turn.Unlock()
			if err != nil && ctx.Err() == nil {
				l.note(err)
				more = true
				_ = settle.Sleep(ctx, lettersRetry)
			}
		}
	}
}

// seeLetters returns the index as it is now.
func seeLetters(v *visit) *letterWatch {
	w := v.s.watch
	w.see()
	if w.queue.Conn.Connected() && w.letters.look(v.Context()) {
		w.mu.Lock()
		w.note(false)
		w.mu.Unlock()
		return w.letters
	}
	w.noteConnection()
	return w.letters
}
