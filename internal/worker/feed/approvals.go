package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// approvalsEvery is how often the feeding worker looks which imports need an approval
	// or were approved.
	approvalsEvery = time.Second
	// moreEvery is how often it looks for what was stored of an import after it was cleared.
	moreEvery = 5 * time.Second
	// abandonedAfter is how long a run of an import has saved no progress before it is
	// taken for one that ended. A run saves every second, and less often while the broker
	// is busy.
	abandonedAfter = time.Minute
	// forgetAfter is how old an entry is, at least, that is removed because nothing of
	// its import waits: a console notes who uploads before it stores, and a watched folder
	// asks who refused its file.
	forgetAfter = time.Hour
)

// clearance says how much of an import may be fed.
type clearance struct {
	rule  string           // by which it was decided
	upTo  settle.StreamSeq // in the waiting room
	until time.Time        // zero = without end

	looked time.Time // for what was stored since
}

// approvals decides which imports may be fed while a rule asks for approvals. It reads what
// waits beside the feeder's rounds, because a large import takes longer than a lease. What
// it has not decided is not fed. So a worker that lacks the setting, a slow look and an
// error hold an import, and never let one go.
type approvals struct {
	feeder *Feeder

	mu      sync.Mutex
	cleared map[string]clearance // by the import's token
	changed atomic.Bool          // more may go than when the feeder listed last
}

// upTo returns the sequence up to which an import may be fed now from the waiting room of a birth; 0 = none of it.
func (a *approvals) upTo(now *imports.Feeding, token string, birth int64) uint64 {
	rule := now.Approvals.ReadRule()
	if !rule.Imports() || token == settle.NoImport {
		return queue.ToTheEnd
	}
	if given := now.Approvals.Imports[token]; given != nil && given.Refused != nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.cleared[token]
	if c.rule != now.Approvals.Rule || c.upTo.Birth != birth || !c.until.IsZero() && !time.Now().Before(c.until) {
		return 0
	}
	return c.upTo.Seq
}

func (a *approvals) clear(token string, c clearance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cleared == nil {
		a.cleared = make(map[string]clearance)
	}
	if was := a.cleared[token]; was.rule != c.rule || was.upTo != c.upTo || !was.until.Equal(c.until) {
		a.changed.Store(true)
	}
	a.cleared[token] = c
}

// keep forgets all but some imports.
func (a *approvals) keep(tokens map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.cleared, func(token string, _ clearance) bool { return !tokens[token] })
}

// run decides until ctx ends, while this worker feeds.
func (a *approvals) run(ctx context.Context) {
	told := ""
	for {
		if settle.Sleep(ctx, approvalsEvery) != nil {
			return
		}
		if !a.feeder.Leads() {
			continue
		}
		err := a.look(ctx)
		if ctx.Err() != nil {
			return
		}
		text := fmt.Sprint(err)
		if text != told && err != nil {
			a.feeder.Log.Warn().Err(err).Msg("approvals cannot be looked at, so imports that need one wait; will retry")
		}
		told = text
	}
}

// look decides about every import that waits.
func (a *approvals) look(ctx context.Context) error {
	q := a.feeder.Queue
	now, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return err
	}
	if rule := now.Approvals.ReadRule(); !rule.Imports() {
		a.keep(nil)
		return nil
	}
	list, err := q.Waiting.All(ctx)
	if err != nil {
		return err
	}
	birth := q.Waiting.Birth()
	waits := make(map[string]bool)
	for _, w := range list {
		waits[w.Import] = w.Import != settle.NoImport
	}
	delete(waits, settle.NoImport)
	a.keep(waits)
	for _, token := range slices.Sorted(maps.Keys(waits)) {
		if err := a.decide(ctx, now, token, birth); err != nil {
			return fmt.Errorf("import %s: %w", imports.ImportName(token), err)
		}
	}
	return a.forget(ctx, now, waits)
}

// decide finds out how much of one import may be fed.
func (a *approvals) decide(ctx context.Context, now *imports.Feeding, token string, birth int64) error {
	given := now.Approvals.Imports[token]
	switch {
	case given != nil && given.UpTo.Birth != 0 && given.UpTo.Birth != birth: // it is about another waiting room
		return a.renew(ctx, now, token, given, birth, "the waiting room was made again since the last decision about it")
	case given != nil && given.Refused != nil:
		return a.askAgain(ctx, now, token, given, birth)
	case given != nil && given.Whole() && given.Compared:
		looked := a.of(token).looked
		a.clear(token, clearance{now.Approvals.Rule, given.UpTo, given.Until, looked})
		return a.askAgain(ctx, now, token, given, birth)
	case given != nil && given.Whole():
		return a.compare(ctx, token, given)
	case given != nil && given.Why != "":
		return nil // people decide
	}
	if c := a.of(token); c.rule == now.Approvals.Rule && c.upTo.Birth == birth {
		if more, err := a.more(ctx, token, c.upTo.Seq); err != nil || !more {
			return err
		}
	}
	return a.judge(ctx, now, token)
}

func (a *approvals) of(token string) clearance {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cleared[token]
}

// more reports whether all that waits of an import was stored behind a sequence. It looks
// every few seconds.
func (a *approvals) more(ctx context.Context, token string, upTo uint64) (bool, error) {
	c := a.of(token)
	if time.Since(c.looked) < moreEvery {
		return false, nil
	}
	c.looked = time.Now()
	a.clear(token, c)
	before, err := a.feeder.Queue.Waiting.StillWaits(ctx, token, upTo)
	if err != nil || before {
		return false, err
	}
	return a.feeder.Queue.Waiting.StillWaits(ctx, token, queue.ToTheEnd)
}

// judge lets an import go that the rule lets go, and asks for approval of any other.
func (a *approvals) judge(ctx context.Context, now *imports.Feeding, token string) error {
	q, rule, batch := a.feeder.Queue, now.Approvals.ReadRule(), imports.ImportName(token)
	imp, err := imports.ReadImport(ctx, q, batch)
	if err != nil {
		return err
	}
	rows, why := 0, ""
	switch {
	case imp == nil:
		why = "a producer stored it, and nobody knows how many orders follow"
	case !imp.Storing && imp.Complete():
		rows = imp.Rows
	case time.Since(imp.UpdatedAt) < abandonedAfter:
		return nil // it is being stored
	default:
		why = "it was not stored to its end"
	}
	if exceeds := rule.Exceeds(rows, nil); exceeds != "" || why != "" {
		return a.ask(ctx, now, token, exceeds, why)
	}
	seen, err := imports.Assess(ctx, q, batch, rule.Column, queue.ToTheEnd, nil)
	if err != nil {
		return err
	}
	if exceeds := rule.Exceeds(max(rows, seen.Count), seen); exceeds != "" {
		return a.ask(ctx, now, token, exceeds, "")
	}
	a.clear(token, clearance{rule: now.Approvals.Rule, upTo: seen.UpTo, looked: time.Now()})
	return nil
}

// ask notes that an import needs an approval. why is the first reason that is not empty.
func (a *approvals) ask(ctx context.Context, now *imports.Feeding, token string, reasons ...string) error {
	why := reasons[slices.IndexFunc(reasons, func(text string) bool { return text != "" })]
	asked := false
	err := imports.ChangeApprovals(ctx, a.feeder.Queue, func(all *imports.Approvals) (bool, error) {
		given := all.Imports[token]
		if asked = all.Rule == now.Approvals.Rule && (given == nil || given.Why == ""); !asked {
			return false, nil // somebody changed something: the next look decides
		}
		next := imports.Approval{At: time.Now().UTC()}
		if given != nil {
			next = *given
		}
		next.Why = why
		all.Imports[token] = &next
		return true, nil
	})
	if err == nil && asked {
		a.feeder.Log.Info().Str("batch", imports.ImportName(token)).Str("why", why).Msg("an import waits for its approval")
	}
	return err
}

// compare reads what was approved once more, and lets it go if it is what the logins saw.
func (a *approvals) compare(ctx context.Context, token string, given *imports.Approval) error {
	q, batch := a.feeder.Queue, imports.ImportName(token)
	seen, err := imports.Assess(ctx, q, batch, "", given.UpTo.Seq, nil)
	if err != nil {
		return err
	}
	same := seen.Bound == given.Bound
	if !same && q.MayLag() { // a replica may lack some
		if n, err := q.Waiting.Of(ctx, token); err != nil || int(n) != seen.Count {
			return err
		}
	}
	return imports.ChangeApprovals(ctx, q, func(all *imports.Approvals) (bool, error) {
		now := all.Imports[token]
		if now == nil || !now.Whole() || now.Bound != given.Bound {
			return false, nil
		}
		next := *now
		if next.Compared = same; !same {
			next.At, next.Given, next.Bound, next.Why = time.Now().UTC(), nil, imports.Bound{}, "what waits of it is not what was approved"
			a.feeder.Log.Warn().Str("batch", batch).Str("approved", given.Digest).Str("stored", seen.Digest).Msg("what waits of an import is not what was approved; it waits for another approval")
		}
		all.Imports[token] = &next
		return true, nil
	})
}

// askAgain asks for an approval of what was stored after the last decision, or is left of
// an approval that lapsed. Whoever uploaded before that decision stands for nothing of it.
func (a *approvals) askAgain(ctx context.Context, now *imports.Feeding, token string, given *imports.Approval, birth int64) error {
	why := "its last approval lapsed"
	if given.Refused != nil || time.Now().Before(given.Until) {
		if more, err := a.more(ctx, token, given.UpTo.Seq); err != nil || !more {
			return err
		}
		why = "it was stored after the last decision about it"
	}
	return a.renew(ctx, now, token, given, birth, why)
}

// renew asks for another approval, unless something was decided meanwhile.
func (a *approvals) renew(ctx context.Context, now *imports.Feeding, token string, given *imports.Approval, birth int64, why string) error {
	return imports.ChangeApprovals(ctx, a.feeder.Queue, func(all *imports.Approvals) (bool, error) {
		old := all.Imports[token]
		if old == nil || old.UpTo.Birth == birth && !old.Compared && old.Refused == nil || old.Bound != given.Bound || all.Rule != now.Approvals.Rule {
			return false, nil
		}
		next := &imports.Approval{At: time.Now().UTC(), Why: why, Importers: old.Importers}
		if up := old.Asker; up != nil && up.At.After(old.Decided()) {
			next.Asker = up
		}
		all.Imports[token] = next
		return true, nil
	})
}

// forget removes the entries of imports of which nothing waits any more.
func (a *approvals) forget(ctx context.Context, now *imports.Feeding, waits map[string]bool) error {
	old := func(token string, given *imports.Approval) bool {
		undecided := given.Why != "" && !given.Whole() && given.Refused == nil // somebody cancelled it
		latest := given.At
		if at := given.Decided(); at.After(latest) {
			latest = at
		}
		return !waits[token] && (undecided || time.Since(latest) > forgetAfter)
	}
	var gone []string
	for token, given := range now.Approvals.Imports {
		if !old(token, given) {
			continue
		}
		waits, err := a.feeder.Queue.Waiting.StillWaits(ctx, token, queue.ToTheEnd)
		if err != nil {
			return err
		}
		if !waits {
			gone = append(gone, token)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return imports.ChangeApprovals(ctx, a.feeder.Queue, func(all *imports.Approvals) (bool, error) {
		before := len(all.Imports)
		maps.DeleteFunc(all.Imports, func(token string, given *imports.Approval) bool {
			return slices.Contains(gone, token) && old(token, given)
		})
		return len(all.Imports) < before, nil
	})
}
