package approval

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"orderpost/internal/audit"
	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
)

// Audit compares the approvals of imports that wait, and of those of the last hour, with
// the journal, and the acts of persons since the rule was set. It adds to the result what an
// approval or an act lacks there.
func Audit(ctx context.Context, q *queue.Queue, a *audit.AuditResult) error {
	f, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return err
	}
	for _, token := range slices.Sorted(maps.Keys(f.Approvals.Imports)) {
		given, batch := f.Approvals.Imports[token], imports.ImportName(token)
		if f.AwaitsApproval(token) && given.Why != "" && given.Refused == nil {
			a.Awaiting++
		}
		acts := make(map[string]journal.Item)
		uploads := make(map[string]bool)
		_, err := journal.All(ctx, q, journal.Query{Batch: batch}, func(i journal.Item) bool {
			if acts[i.ID] = i; i.Kind == journal.Import {
				uploads[i.Actor.Name+"\x00"+string(i.Actor.Known)] = true
			}
			return true
		})
		if err != nil {
			return err
		}
		compare("import "+batch, given, acts, a)
		if up := given.Asker; up != nil && !uploads[up.Name+"\x00"+up.How] {
			a.Offend("import "+batch, "%s uploaded it at %s, and the journal has no import by that login", up.Name, stamp(up.At))
		}
	}
	return auditActs(ctx, q, &f.Approvals, ruleGrace, a)
}

// compare compares what logins decided with their acts in the journal, by their ids.
func compare(name string, given *imports.Approval, acts map[string]journal.Item, a *audit.AuditResult) {
	check := func(s *imports.Signature, kind journal.Kind, did string) {
		act, found := acts[s.Act]
		if !found || act.Kind != kind || act.Unannounced || act.Actor.Name != s.Name || string(act.Actor.Known) != s.How ||
			kind == journal.Approve && act.Details["digest"] != given.Digest {
			a.Offend(name, "%s %s it at %s, and the journal has no such act", s.Name, did, stamp(s.At))
		}
	}
	for i := range given.Given {
		check(&given.Given[i], journal.Approve, "approved")
	}
	if given.Refused != nil {
		check(given.Refused, journal.Refuse, "refused")
	}
}

// ruleGrace is how long after a change of the rule an act may still go by the one before.
const ruleGrace = time.Minute

// formerRule reports whether an act that came after a rule may have gone by the one before. If
// it seems to be the earlier one, the clock was set back.
func formerRule(at, since time.Time, grace time.Duration) bool {
	age := at.Sub(since)
	return age >= 0 && age < grace
}

// auditActs compares the acts of persons with the approvals that the rule asks for. Of a limit nobody
// knows any more whether it was a higher one.
func auditActs(ctx context.Context, q *queue.Queue, all *imports.Approvals, grace time.Duration, a *audit.AuditResult) error {
	rule := all.ReadRule()
	if rule.Acts() == "" && len(all.Acts) == 0 {
		return nil
	}
	var since time.Time
	decided := make(map[string]journal.Item) // by their own ids
	approved := make(map[string][]string)    // by the id of the act, who approved it
	var done []journal.Item                  // acts that the rule names
	first := uint64(math.MaxUint64)          // the first of the acts that wait, by its place in the journal
	lacks := make(map[string]bool)
	for id, given := range all.Acts {
		item, _, err := journal.Find(ctx, q, given.Intention)
		if err != nil {
			return err
		}
		if lacks[id] = item == nil; item != nil {
			first = min(first, item.Seq)
		}
	}
	_, err := journal.All(ctx, q, journal.Query{}, func(i journal.Item) bool {
		switch {
		case i.Kind == journal.Approve || i.Kind == journal.Refuse:
			if decided[i.ID] = i; i.Kind == journal.Approve && (i.Result == nil || i.Result.End != journal.Failed) { // its effect may have come before a full disk
				approved[i.Details["act"]] = append(approved[i.Details["act"]], i.Actor.Name)
			}
		case i.Kind == journal.Rule && since.IsZero() && i.Result != nil && i.Result.End == journal.Done && i.Details["to"] == rule.String():
			since = i.Ended
		case needsApproval(rule, i.About) && i.Kind != journal.Limit && since.IsZero():
			done = append(done, i)
		}
		return since.IsZero() || i.Seq > first
	})
	if err != nil {
		return err
	}
	for _, i := range done {
		if i.Result == nil || i.Result.End == journal.Failed || since.IsZero() || formerRule(i.Stored, since, grace) {
			continue
		}
		if len(i.Result.ApprovedBy) == 0 {
			a.Offend("act "+i.ID, "%s did it at %s without the approval that the rule asks for: %s", i.Actor.Name, stamp(i.Stored), what(i.About))
		} else {
			for _, name := range i.Result.ApprovedBy {
				if !slices.Contains(approved[i.ID], name) {
					a.Offend("act "+i.ID, "%s approved it, and the journal has no such approval: %s", name, what(i.About))
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all.Acts)) {
		given := all.Acts[id]
		if lacks[id] {
			a.Offend("act "+id, "it waits for an approval, and the journal has no such act: %s", given.Why)
		}
		compare("act "+id, given, decided, a)
	}
	return nil
}
