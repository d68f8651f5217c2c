package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// ErrNoStream is returned by reads of a stream that does not exist.
var ErrNoStream = jetstream.ErrStreamNotFound

// ErrNoJournal is returned by AppendJournal if the broker has lost the journal.
var ErrNoJournal = errors.New("the broker has no journal; a worker creates it again within seconds")

// Journal returns the stream of people's acts. Package journal gives its
// messages a meaning.
func (q *Queue) Journal() Stream {
	return Stream{q.reader, q.Conn.n.journal, q.Conn.n.journalPre, false, ">"}
}

// AppendJournal stores an entry under a name that no other entry has: the
// subject's tokens after the prefix. Repeated with the same name it stores
// nothing twice. Error: ErrNoJournal, settle.ErrFull, nats.ErrPermissionViolation (wrapped).
func (q *Queue) AppendJournal(ctx context.Context, name string, entry []byte) error {
	return q.Conn.UnlessRefused(ctx, func(ctx context.Context) error {
		return q.Conn.patiently(ctx, func(ctx context.Context) error { return q.appendJournal(ctx, name, entry) })
	})
}

// appendJournal tries it once.
func (q *Queue) appendJournal(ctx context.Context, name string, entry []byte) error {
	ctx, cancel := q.Conn.link.bound(ctx)
	defer cancel()
	_, err := q.Conn.js.PublishMsg(ctx, &nats.Msg{Subject: q.Conn.n.journalPre + name, Data: entry}, jetstream.WithExpectStream(q.Conn.n.journal))
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		if _, look := q.Topology.findStream(ctx, q.Conn.n.journal); errors.Is(look, jetstream.ErrStreamNotFound) {
			err = ErrNoJournal
		}
		return fmt.Errorf("stream %s: %w", q.Conn.n.journal, err) // its leader may only be away
	case !errors.As(err, &api):
		return fmt.Errorf("stream %s: the broker did not confirm the entry: %w", q.Conn.n.journal, err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		return nil // an earlier try stored it
	case slices.Contains(fullCodes, api.ErrorCode):
		return fmt.Errorf("stream %s: %w: %s", q.Conn.n.journal, settle.ErrFull, api.Description)
	default:
		return fmt.Errorf("stream %s: the broker refused the entry: %w", q.Conn.n.journal, err)
	}
}
