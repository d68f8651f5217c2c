package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// lastMsg reads the last message of a subject at the stream's leader, because a
// follower may not have it yet (R2). It returns nil if there is none.
//
// The server says "no message found" also if it could not read its own file,
// and while it closes the stream (nats-server 2.15, jsMsgGetRequest). So
// lastMsg believes that only if the stream's index agrees.
func (rd *reader) lastMsg(ctx context.Context, stream, subject string) (*settle.Message, error) {
	for try := 1; ; try++ {
		m, err := rd.getMsg(ctx, stream, map[string]any{"last_by_subj": subject})
		if err != nil || m != nil {
			return m, err
		}
		held, err := rd.holds(ctx, stream, subject)
		switch {
		case err != nil:
			return nil, err
		case !held:
			return nil, nil
		case try == 2: // the first time, the message may have come in between
			return nil, fmt.Errorf("read from stream %s: %w: subject %s; see the log and the disk of the broker", stream, settle.ErrNotLoaded, subject)
		}
	}
}

// holds reports whether the index of a stream's leader lists a message under
// the subject. The index is in memory.
func (rd *reader) holds(ctx context.Context, stream, subject string) (held bool, err error) {
	req, err := json.Marshal(map[string]any{"subjects_filter": subject})
	if err != nil {
		return false, err
	}
	err = rd.conn.patiently(ctx, func(ctx context.Context) error {
		body, err := rd.ask(ctx, stream, "$JS.API.STREAM.INFO."+stream, req)
		if err == nil && body.State == nil {
			err = fmt.Errorf("read from stream %s: the answer has neither a state nor an error", stream)
		}
		if err == nil {
			held = body.State.Subjects[subject] > 0
		}
		return err
	})
	return held, err
}

// apiAnswer is what the broker's API answers to a request about a stream.
type apiAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Purged  int                 `json:"purged"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
	State *struct {
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// ask sends a request about a stream to the broker's API. An error of the API
// is a *jetstream.APIError, wrapped.
func (rd *reader) ask(ctx context.Context, stream, subject string, req []byte) (body apiAnswer, err error) {
	ctx, cancel := rd.conn.link.bound(ctx)
	defer cancel()
	resp, err := rd.conn.nc.RequestWithContext(ctx, subject, req)
	if err == nil {
		err = json.Unmarshal(resp.Data, &body)
	}
	if err == nil && body.Error != nil {
		err = body.Error
	}
	if err != nil {
		return body, fmt.Errorf("read from stream %s: %w", stream, err)
	}
	return body, nil
}

// msgAt reads one message by its sequence at the stream's leader. It returns
// nil if the message is gone.
func (rd *reader) msgAt(ctx context.Context, stream string, seq uint64) (*settle.Message, error) {
	return rd.getMsg(ctx, stream, map[string]any{"seq": seq})
}

func (rd *reader) getMsg(ctx context.Context, stream string, query map[string]any) (m *settle.Message, err error) {
	req, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	err = rd.conn.patiently(ctx, func(ctx context.Context) error {
		m, err = rd.askMsg(ctx, stream, req)
		return err
	})
	return m, err
}

func (rd *reader) askMsg(ctx context.Context, stream string, req []byte) (*settle.Message, error) {
	body, err := rd.ask(ctx, stream, "$JS.API.STREAM.MSG.GET."+stream, req)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := body.Message
	if m == nil {
		return nil, fmt.Errorf("read from stream %s: the answer has neither a message nor an error", stream)
	}
	raw := &settle.Message{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return nil, fmt.Errorf("read from stream %s, sequence %d: %w", stream, m.Seq, err)
		}
		raw.Header = settle.Header(h)
	}
	return raw, nil
}
