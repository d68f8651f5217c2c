package books

import (
	"context"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// DryRunReplay says what settle.Protocol.Replay would do with listed letters, 256
// at most, and changes nothing. It says ReplayNone of a letter whose record cannot
// be read. It reads many at once, from whichever replica answers.
func DryRunReplay(ctx context.Context, q *queue.Queue, letters []*settle.Letter, o settle.ReplayOptions) ([]settle.Replay, error) {
	pending, err := q.Intents().Peek(ctx, intentTokens(letters))
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(letters))
	for i, l := range letters {
		tokens[i] = l.Token()
	}
	records, err := q.Results().Peek(ctx, tokens)
	if err != nil {
		return nil, err
	}
	ends := make([]settle.Replay, len(letters))
	for i, l := range letters {
		var entry settle.Entry
		if records[i] != nil {
			if entry, err = queue.DecodeRecord(records[i]); err != nil {
				continue
			}
		}
		ends[i] = q.JudgeReplay(l, pending[i], entry, o)
	}
	return ends, nil
}
