package queue

import (
	"context"
	"strings"

	"orderpost/internal/settle"
)

// nats-server stores a message under any subject, but its index of subjects refuses those
// with the byte 127 (2.15.2, stree.Insert). Such a message counts in the stream and is read
// by its sequence, but no list, no filter and no limit of messages for each subject knows
// of it. The feeder finds its work by lists, so it would leave such an intent in the waiting
// room for ever.

// unlistedPages bounds how many pages one call of Unlisted reads.
const unlistedPages = 16

// Unlisted returns waiting intents that the broker counts and does not list, from a
// sequence on. It reads the waiting room only if there are more messages than the list of
// subjects says, and then at most some thousand of them. next is the sequence to go on
// from. more says that the call did not come to the end.
func (wr *WaitingRoom) Unlisted(ctx context.Context, from uint64) (found []*settle.Message, next uint64, more bool, err error) {
	some, last, err := wr.listLacks(ctx)
	if err != nil || !some {
		return nil, from, false, err
	}
	listed := make(map[string]bool)
	next = max(from, 1)
	for pages := 0; next <= last; pages++ {
		if pages == unlistedPages {
			return found, next, true, nil
		}
		page, after, left, err := wr.reader.page(ctx, wr.conn.n.waiting, wr.conn.n.waitPre+">", next, pageSize)
		if err != nil {
			return found, next, false, err
		}
		for _, m := range page {
			if settle.PlainSubject(strings.TrimPrefix(m.Subject, wr.conn.n.waitPre)) {
				continue
			}
			known, asked := listed[m.Subject]
			if !asked {
				n, err := wr.Under(ctx, m.Subject)
				if err != nil {
					return found, next, false, err
				}
				known = n > 0
				listed[m.Subject] = known
			}
			if !known {
				found = append(found, m)
			}
		}
		if next = after; left == 0 {
			break
		}
	}
	return found, last + 1, false, nil
}

// listLacks reports whether the waiting room has more messages than its list of subjects
// says, and its last sequence. While intents come and go it may report true by mistake.
func (wr *WaitingRoom) listLacks(ctx context.Context) (some bool, last uint64, err error) {
	before, last, err := wr.extent(ctx)
	if err != nil || before == 0 {
		return false, last, err
	}
	var listed uint64
	for _, pattern := range []string{"*.*", "at.*.*.*.*.*"} {
		_, n, err := wr.stream().rest(ctx, map[string]any{"seq": 1, "batch": 1, "next_by_subj": wr.conn.n.waitPre + pattern})
		if err != nil {
			return false, last, err
		}
		listed += n
	}
	after, _, err := wr.extent(ctx)
	return min(before, after) > listed, last, err
}
