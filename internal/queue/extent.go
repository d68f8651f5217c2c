package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// At returns the sequence of the first message that was stored at or after t, or
// 0 if there is none.
func (s Stream) At(ctx context.Context, t time.Time) (first uint64, err error) {
	first, _, err = s.rest(ctx, map[string]any{"start_time": t.UTC(), "batch": 1})
	return first, err
}

// CountFrom returns how many messages have the sequence seq or a later one, the
// tails of letters included. The broker counts them without reading them.
func (s Stream) CountFrom(ctx context.Context, seq uint64) (n uint64, err error) {
	_, n, err = s.rest(ctx, map[string]any{"seq": max(seq, 1), "batch": 1})
	return n, err
}

// rest returns the sequence of the first message of a batched read, and how many
// messages there are from it on. Both are 0 if there is none.
func (s Stream) rest(ctx context.Context, query map[string]any) (first, n uint64, err error) {
	req, err := json.Marshal(query)
	if err != nil {
		return 0, 0, err
	}
	err = s.q.patiently(ctx, func(ctx context.Context) error {
		first, n = 0, 0
		return s.q.directGet(ctx, s.name, req, func(msg *nats.Msg) (bool, error) {
			switch status := directStatus(msg); status {
			case "":
				left, err := strconv.ParseUint(popHeader(msg.Header, "Nats-Num-Pending"), 10, 64)
				if err != nil {
					return false, fmt.Errorf("answer without a count: %w", err)
				}
				raw, err := directMsg(msg)
				if err == nil {
					first, n = raw.Seq, left+1
				}
				return false, err
			case "404":
				return true, nil
			case "204":
				return true, nil
			case "503":
				return false, nats.ErrNoResponders
			default:
				return false, fmt.Errorf("%w: status %s %s", errIncomplete, status, msg.Header.Get("Description"))
			}
		})
	})
	return first, n, err
}
