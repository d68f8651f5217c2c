package queue

import (
	"context"

	"orderpost/internal/settle"
)

// WaitingTotal counts every waiting intent.
func (q *Queue) WaitingTotal(ctx context.Context) (n uint64, err error) {
	n, _, err = q.waitingExtent(ctx)
	return n, err
}

// LastWaiting returns the sequence of the intent that was put into the waiting room
// last, as its leader knows it; 0 = none ever was.
func (q *Queue) LastWaiting(ctx context.Context) (last uint64, err error) {
	_, last, err = q.waitingExtent(ctx)
	return last, err
}

func (q *Queue) waitingExtent(ctx context.Context) (n, last uint64, err error) {
	state, err := q.waitingRoom().State(ctx)
	return state.Messages, state.LastSeq, err
}

// importPatterns match the subjects of an import's waiting intents, those with a
// time included.
func importPatterns(token string) []string { return []string{"*." + token, "at.*.*.*.*." + token} }

// WaitingOf counts the waiting intents of an import, by its token.
func (q *Queue) WaitingOf(ctx context.Context, token string) (n uint64, err error) {
	if any, err := q.WaitingTotal(ctx); err != nil || any == 0 {
		return 0, err
	}
	for _, pattern := range importPatterns(token) {
		_, some, err := q.waitingRoom().rest(ctx, map[string]any{"seq": 1, "batch": 1, "next_by_subj": q.n.waitPre + pattern})
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// StillWaits reports whether anything of an import waits up to a sequence, by its
// token. The leader of the stream answers, unlike in WaitingOf.
func (q *Queue) StillWaits(ctx context.Context, token string, last uint64) (bool, error) {
	if any, err := q.WaitingTotal(ctx); err != nil || any == 0 {
		return false, err
	}
	for _, pattern := range importPatterns(token) {
		l, err := q.listWaiting(ctx, q.n.waitPre+pattern, 0)
		if err != nil {
			return false, err
		}
		if l.subjects == 0 {
			continue
		}
		if last == ToTheEnd {
			return true, nil
		}
		// No answer means that it left meanwhile, or that the broker could not read it.
		first, err := q.getMsg(ctx, q.n.waiting, map[string]any{"seq": 1, "next_by_subj": q.n.waitPre + pattern})
		if err != nil || first == nil || first.Seq <= last {
			return true, err
		}
	}
	return false, nil
}

// EachWaiting passes the waiting intents of an import up to a sequence to visit, by
// its token, page by page. An empty token means every import. It passes nothing that
// is stored later than its call, so it ends however fast producers publish.
func (q *Queue) EachWaiting(ctx context.Context, token string, last uint64, visit func([]*settle.Message) error) error {
	any, end, err := q.waitingExtent(ctx)
	if err != nil || any == 0 {
		return err
	}
	patterns := []string{">"}
	if token != "" {
		patterns = importPatterns(token)
	}
	for _, pattern := range patterns {
		if err := q.waitingRoom().Matching(ctx, pattern, min(last, end), visit); err != nil {
			return err
		}
	}
	return nil
}

// WaitingImport returns the token of the import under which an intent waits.
func (q *Queue) WaitingImport(m *settle.Message) string {
	return q.readWaiting(m.Subject, m.Time).Import
}

func (q *Queue) waitingRoom() Stream { return Stream{q, q.n.waiting, q.n.waitPre, false, ">"} }
