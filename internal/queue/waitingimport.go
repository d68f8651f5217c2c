package queue

import (
	"context"

	"orderpost/internal/settle"
)

// importPatterns match the subjects of an import's waiting intents, those with a
// time included.
func importPatterns(token string) []string { return []string{"*." + token, "at.*.*.*.*." + token} }

// Of counts the waiting intents of an import, by its token.
func (wr *WaitingRoom) Of(ctx context.Context, token string) (n uint64, err error) {
	if any, err := wr.Total(ctx); err != nil || any == 0 {
		return 0, err
	}
	for _, pattern := range importPatterns(token) {
		_, some, err := wr.stream().rest(ctx, map[string]any{"seq": 1, "batch": 1, "next_by_subj": wr.conn.n.waitPre + pattern})
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// StillWaits reports whether anything of an import waits up to a sequence, by its
// token. The leader of the stream answers, unlike in [WaitingRoom.Of].
func (wr *WaitingRoom) StillWaits(ctx context.Context, token string, last uint64) (bool, error) {
	if any, err := wr.Total(ctx); err != nil || any == 0 {
		return false, err
	}
	for _, pattern := range importPatterns(token) {
		l, err := wr.list(ctx, wr.conn.n.waitPre+pattern, 0)
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
		first, err := wr.reader.getMsg(ctx, wr.conn.n.waiting, map[string]any{"seq": 1, "next_by_subj": wr.conn.n.waitPre + pattern})
		if err != nil || first == nil || first.Seq <= last {
			return true, err
		}
	}
	return false, nil
}

// Each passes the waiting intents of an import up to a sequence to visit, by
// its token, page by page. An empty token means every import. It passes nothing that
// is stored later than its call, so it ends however fast producers publish.
func (wr *WaitingRoom) Each(ctx context.Context, token string, last uint64, visit func([]*settle.Message) error) error {
	any, end, err := wr.extent(ctx)
	if err != nil || any == 0 {
		return err
	}
	patterns := []string{">"}
	if token != "" {
		patterns = importPatterns(token)
	}
	for _, pattern := range patterns {
		if err := wr.stream().Matching(ctx, pattern, min(last, end), visit); err != nil {
			return err
		}
	}
	return nil
}

// Import returns the token of the import under which an intent waits.
func (wr *WaitingRoom) Import(m *settle.Message) string {
	return wr.read(m.Subject, m.Time).Import
}
