package queue

import (
	"context"
	"encoding/json"

	"orderpost/internal/settle"
)

// mostWaiting bounds a page of waiting intents. It waits for every write to the stream that is
// under way, so few large ones are read.
const mostWaiting = 1000

// Page reads up to n waiting intents of a subject, from a sequence on, in
// their order. left is how many come after them. With several replicas a follower that
// lags may answer; what it lacks is read later.
func (wr *WaitingRoom) Page(ctx context.Context, subject string, from uint64, n int) (page []*settle.Message, left int, err error) {
	req, err := json.Marshal(map[string]any{"seq": max(from, 1), "batch": min(n, mostWaiting), "max_bytes": answerBytes, "next_by_subj": subject})
	if err != nil {
		return nil, 0, err
	}
	err = wr.conn.patiently(ctx, func(ctx context.Context) error {
		var more uint64
		page, _, more, err = wr.reader.askPage(ctx, wr.conn.n.waiting, subject, req)
		left = int(more)
		return err
	})
	return page, left, err
}

// Backlog is how much the intents stream has for the workers.
type Backlog struct {
	// Undelivered counts the intents that no worker was given. Delivered counts
	// those that workers have in hand or that wait for another delivery.
	Undelivered, Delivered int
	// Gone counts the intents that were settled or removed.
	Gone uint64
}

// Backlog reads it from the stream and its consumer.
func (cs *Census) Backlog(ctx context.Context) (Backlog, error) {
	stream, err := cs.intents(ctx)
	if err != nil {
		return Backlog{}, err
	}
	consumer, err := cs.topology.workersConsumer(ctx)
	if err != nil {
		return Backlog{}, err
	}
	state, info := stream.CachedInfo().State, consumer.CachedInfo()
	b := Backlog{Undelivered: int(info.NumPending), Delivered: info.NumAckPending}
	b.Gone = state.LastSeq - min(state.LastSeq, uint64(b.Undelivered+b.Delivered))
	return b, nil
}
