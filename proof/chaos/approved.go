package chaos

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
)

// approvalTally counts what two people decided, and what became of the imports that one of
// them uploaded.
type approvalTally struct {
	// Answered counts the decisions that a console answered, CutOff those of which nobody
	// knows at first whether they count: the console was killed, or the broker was away.
	Answered int `json:"answered"`
	CutOff   int `json:"cut_off"`
	// Approved, Refused and Waiting count the uploads by how they ended.
	Approved int `json:"approved"`
	Refused  int `json:"refused"`
	Waiting  int `json:"waiting"`
	// Covered counts the created orders that two people had agreed to.
	Covered int `json:"covered"`
	// Wrong counts what contradicts the decisions.
	Wrong int `json:"wrong"`
}

// signature is an act of a login about an import, as the journal has it.
type signature struct {
	name, act, digest string
	at                time.Time
	failed            bool
}

// judge compares what the consoles answered with the journal, and what was sent with what two
// people had agreed to. The queue is quiet but for what was left.
func (pp *people) judge(ctx context.Context, q *queue.Queue, settled map[string]*order.Record, in *intents, api *sandbox.Server,
	problem func(format string, args ...any)) (*approvalTally, error) {
	acts := make(map[string][]signature) // by batch
	_, err := journal.All(ctx, q, journal.Query{}, func(i journal.Item) bool {
		counts := i.Actor.Known == journal.Login || i.Actor.Known == journal.Proxy
		if kind := i.Kind; counts && (kind == journal.Approve || kind == journal.Refuse || kind == journal.Import) {
			acts[i.Batch] = append(acts[i.Batch], signature{i.Actor.Name, string(kind), i.Details["digest"], i.Stored, i.Result != nil && i.Result.End == journal.Failed})
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	t := &approvalTally{Answered: len(pp.answered), CutOff: pp.cutOff}
	wrong := func(format string, args ...any) { t.Wrong++; problem(format, args...) }
	for _, p := range pp.problems {
		wrong("%s", p)
	}
	for _, d := range pp.answered {
		if !slices.ContainsFunc(acts[d.Batch], func(s signature) bool {
			return s.name == d.Name && s.act == d.Act && s.digest == d.Digest && !s.failed
		}) {
			wrong("import %s: a console told %s that they did %s %s, and the journal has no such act", d.Batch, d.Name, d.Act, d.Digest)
		}
	}
	for no, e := range api.Each {
		rec := settled[no]
		if e.Created == 0 || rec == nil || !rec.Waited && pp.uploads[rec.Batch] == nil {
			continue
		}
		if agreed(acts[rec.Batch], in.publishedAt(no), e.FirstAt) {
			t.Covered++
		} else {
			wrong("%s of import %s: created at %s, and before that no two people had agreed to what was stored by then", no, rec.Batch, e.FirstAt.Format(time.RFC3339Nano))
		}
	}
	return t, pp.judgeUploads(ctx, q, settled, api, t, wrong)
}

// agreed reports whether two people stood for the same part of an import, at some time
// between two others. Whoever uploaded it did before.
func agreed(acts []signature, from, until time.Time) bool {
	names := make(map[string]map[string]bool) // by digest
	for _, s := range acts {
		if s.act == string(journal.Approve) && !s.failed && s.at.After(from) && s.at.Before(until) {
			if names[s.digest] == nil {
				names[s.digest] = make(map[string]bool)
			}
			names[s.digest][s.name] = true
		}
	}
	for _, given := range names {
		for _, s := range acts {
			if s.act == string(journal.Import) && s.at.Before(until) {
				given[s.name] = true
			}
		}
		if len(given) >= 2 {
			return true
		}
	}
	return false
}

// judgeUploads finds how each upload ended.
func (pp *people) judgeUploads(ctx context.Context, q *queue.Queue, settled map[string]*order.Record, api *sandbox.Server, t *approvalTally, wrong func(string, ...any)) error {
	for batch, up := range pp.uploads {
		waits, err := q.Waiting.Of(ctx, imports.ImportToken(batch))
		if err != nil {
			return err
		}
		created, outcomes := 0, 0
		for _, no := range up.orderNos {
			created += min(api.Created(no), 1)
			if rec := settled[no]; rec != nil && rec.Outcome() != order.OutcomeNone {
				outcomes++
			}
		}
		switch rows := len(up.orderNos); {
		case up.fate == approved && waits == 0 && outcomes == rows:
			t.Approved++
		case up.fate == refused && waits == 0 && outcomes == rows && created == 0:
			t.Refused++
		case up.fate == left && waits == uint64(rows) && outcomes == 0 && created == 0:
			t.Waiting++
		default:
			wrong("import %s is to be %s: of %d orders %d wait, %d have an outcome, %d were created", batch, up.fate, rows, waits, outcomes, created)
		}
	}
	return nil
}
