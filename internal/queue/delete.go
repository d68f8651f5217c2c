package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// JetStream's answers to the deletion of a message that is gone. The client has no
// names for them.
const (
	codeDeleteFailed     = 10057
	textNoMessage        = "no message found"
	codeSequenceNotFound = 10043
)

// deleteMsg removes a stored message. The error for a message that is gone, for
// instance because the answer to an earlier request was lost, wraps
// jetstream.ErrMsgNotFound. Another error that the broker answered is a
// *jetstream.APIError (wrapped).
//
// It sends the request itself: the client's own function asks for the stream's
// state first, and its error does not say that the message is gone.
func (rd *reader) deleteMsg(ctx context.Context, stream string, seq uint64) error {
	req := fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq)
	return rd.conn.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := rd.conn.link.bound(ctx)
		defer cancel()
		if err := rd.askDelete(ctx, stream, req); err != nil {
			return fmt.Errorf("stream %s, sequence %d: not removed: %w", stream, seq, err)
		}
		return nil
	})
}

func (rd *reader) askDelete(ctx context.Context, stream string, req []byte) error {
	resp, err := rd.conn.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.DELETE."+stream, req)
	if err != nil {
		return err
	}
	var body struct {
		Error *jetstream.APIError `json:"error"`
	}
	err = json.Unmarshal(resp.Data, &body)
	switch refused := body.Error; {
	case err != nil || refused == nil:
		return err
	case refused.ErrorCode == codeSequenceNotFound,
		refused.ErrorCode == codeDeleteFailed && strings.Contains(refused.Description, textNoMessage):
		return fmt.Errorf("%w: %w", jetstream.ErrMsgNotFound, refused)
	default:
		return refused
	}
}

// unlessGone returns nil where a message is gone that was to be deleted.
func unlessGone(err error) error {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}

// purge removes the messages of a subject with sequences below before, 0 = all.
func (rd *reader) purge(ctx context.Context, name, subject string, before uint64) error {
	stream, err := rd.stream(ctx, name)
	if err != nil {
		return err
	}
	return rd.conn.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := rd.conn.link.bound(ctx)
		defer cancel()
		return stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(before))
	})
}
