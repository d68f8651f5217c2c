package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"orderpost/internal/audit/journal"
)

// journalPage is a page of acts, newest first.
type journalPage struct {
	By, Kind, OrderNo string
	Kinds             []journal.Kind
	Acts              []actLine
	// Older is the address of the next page; "" = this is the last one.
	Older      string
	Filtered   bool
	Unreadable []error
}

// actLine is an act as a row.
type actLine struct {
	journal.Item
	// What is the act in words, Ended how it ended.
	What, Ended, Tone string
	More              facts
}

func showJournal(v *visit) error {
	p := journalPage{By: v.query("by"), Kind: v.query("kind"), OrderNo: v.query("no"), Kinds: journal.Kinds()}
	p.Filtered = p.By+p.Kind+p.OrderNo != ""
	query := journal.Query{By: p.By, Kind: journal.Kind(p.Kind), OrderNo: p.OrderNo}
	if p.Kind != "" && !slices.Contains(p.Kinds, query.Kind) {
		return badRequest("There are no acts of the kind "+shorten(p.Kind, 40)+".", "Choose one from the list.")
	}
	if text := v.query("before"); text != "" {
		var err error
		if query.Before, err = strconv.ParseUint(text, 10, 64); err != nil {
			return badRequest("The page that this link names does not exist.", "Begin with the newest acts.")
		}
	}
	ctx := v.brief()
	page, err := journal.Read(ctx, v.queue(), query)
	if err != nil {
		return err
	}
	p.Unreadable = page.Unreadable
	for _, item := range page.Items {
		p.Acts = append(p.Acts, describeAct(item))
	}
	if page.Next > 0 {
		p.Older = address("/journal", parameters("before", unlessZero(page.Next), "by", p.By, "kind", p.Kind, "no", p.OrderNo))
	}
	return v.render("journal", "Journal", p)
}

// describeAct puts an act into words.
func describeAct(item journal.Item) actLine {
	l := actLine{Item: item, What: actWords(item.About), Ended: "no result yet", Tone: "warn"}
	add := l.More.say
	add("Note", item.Note)
	add("Import", item.Batch)
	for _, name := range slices.Sorted(maps.Keys(item.Filter)) {
		add("Filter "+name, strings.Join(item.Filter[name], ", "))
	}
	if item.LastSeq > 0 {
		add("Up to letter", strconv.FormatUint(item.LastSeq, 10))
	}
	add("Expected", counted(item.Expected))
	for _, name := range slices.Sorted(maps.Keys(item.Details)) {
		add(name, item.Details[name])
	}
	if r := item.Result; r != nil {
		l.Ended = string(r.End)
		l.Tone = map[journal.End]string{journal.Done: "good", journal.Partial: "warn", journal.Stopped: "warn", journal.Failed: "bad"}[r.End]
		add("Result", counted(r.Counts))
		add("Approved by", strings.Join(r.ApprovedBy, " and "))
		add("Error", r.Error)
	} else {
		add("Result", journal.NoResult)
	}
	if item.Unannounced {
		add("Without intention", "the journal could not be written before the act, which made things safer")
	}
	add("Where", strings.TrimSuffix(item.Program+" on "+item.Host, " on "))
	add("Name", item.Actor.Known.Meaning())
	add("Act", item.ID)
	return l
}

// actWords says in a few words what an act does.
func actWords(a journal.About) string {
	words := map[journal.Kind]string{journal.Import: "import a file", journal.Cancel: "cancel orders", journal.Replay: "replay dead letters", journal.Lookup: "look up orders in doubt", journal.Resolve: "resolve",
		journal.Drop: "drop dead letters", journal.Erase: "erase", journal.Export: "export dead letters", journal.Hold: "hold the fleet", journal.Resume: "resume the fleet", journal.Limit: "limit the fleet",
		journal.Adopt: "assign the orders to another API", journal.Repair: "accept the loss of streams", journal.Remove: "remove a file", journal.Tell: "send parked webhooks again",
		journal.Approve: "approve", journal.Refuse: "refuse", journal.Rule: "set what needs approval"}[a.Kind]
	if what := a.Details["what"]; a.Kind == journal.Export && what != "" {
		words = "save " + what
	}
	if words == "" {
		words = string(a.Kind)
	}
	switch {
	case a.OrderNo != "":
		words += ": order " + shorten(a.OrderNo, 60)
	case a.Details["file"] != "":
		words += ": " + shorten(a.Details["file"], 60)
	case a.Batch != "":
		words += ": import " + shorten(a.Batch, 60)
	}
	return words
}

// largestFirst returns what is counted by its number, and then by its name.
func largestFirst[K cmp.Ordered](counts map[K]int) []K {
	return slices.SortedFunc(maps.Keys(counts), func(a, b K) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
}

// counted writes counts in words, the largest first.
func counted(counts map[string]int) string {
	var parts []string
	for _, name := range largestFirst(counts) {
		if counts[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", count(counts[name]), name))
		}
	}
	return strings.Join(parts, ", ")
}
