package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// At returns the sequence of the first message that was stored at or after t, or
// 0 if there is none.
func (s Stream) At(ctx context.Context, t time.Time) (first uint64, err error) {
	req, err := json.Marshal(map[string]any{"start_time": t.UTC(), "next_by_subj": ">"})
	if err != nil {
		return 0, err
	}
	err = s.reader.conn.patiently(ctx, func(ctx context.Context) error {
		first = 0
		return s.reader.askSingly(ctx, s.name, []string{string(req)}, func(m *settle.Message) string {
			if m != nil {
				first = m.Seq
			}
			return ""
		})
	})
	return first, err
}

// Gaps returns the sequences between FirstSeq and LastSeq that are gone, oldest
// first, and the state of the stream at the same moment. The broker lists each of
// them, so ask only if State has told that they are not too many.
func (s Stream) Gaps(ctx context.Context) (gone []uint64, state StreamState, err error) {
	stream, err := s.reader.stream(ctx, s.name)
	if err != nil {
		return nil, state, err
	}
	err = s.reader.conn.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := s.reader.conn.link.bound(ctx)
		defer cancel()
		info, err := stream.Info(ctx, jetstream.WithDeletedDetails(true))
		if err == nil {
			gone, state = info.State.Deleted, stateOf(info)
		}
		return err
	})
	if err != nil {
		return nil, state, fmt.Errorf("stream %s: %w", s.name, err)
	}
	return gone, state, nil
}

// rest returns the sequence of the first message of a batched read, and how many
// messages there are from it on. Both are 0 if there is none.
func (s Stream) rest(ctx context.Context, query map[string]any) (first, n uint64, err error) {
	req, err := json.Marshal(query)
	if err != nil {
		return 0, 0, err
	}
	err = s.reader.conn.patiently(ctx, func(ctx context.Context) error {
		first, n = 0, 0
		return s.reader.directGet(ctx, s.name, req, func(msg *nats.Msg) (bool, error) {
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
