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

// ErrNoJournal is returned by AppendJournal if the broker has no journal and this
// program's NATS user may not create one.
var ErrNoJournal = errors.New("the broker has no journal")

// Journal returns the stream of people's acts. Package journal gives its
// messages a meaning.
func (q *Queue) Journal() Stream { return Stream{q, q.n.journal, q.n.journalPre, false, ">"} }

// EnsureJournal creates the journal if the broker has none, and brings an
// existing one up to this version. made reports that it was created.
//
// The journal is not among the streams that Open insists on. Orders go on
// without it, installations of older versions have none, and a NATS user with
// the permissions of an older version may not create it.
func (q *Queue) EnsureJournal(ctx context.Context) (made bool, err error) {
	want := q.journalStream()
	err = q.UnlessRefused(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		stream, err := q.js.Stream(ctx, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			made = true
			return q.makeStreams(ctx, []jetstream.StreamConfig{want})
		case err != nil:
			return wrapStream(want.Name, "cannot be read", err)
		}
		have := stream.CachedInfo().Config // how long entries are kept is for the operator to say
		want.MaxAge, want.MaxMsgs, want.MaxBytes = have.MaxAge, have.MaxMsgs, have.MaxBytes
		return q.checkStream(ctx, stream, want)
	})
	return made && err == nil, err
}

// firstJournal is EnsureJournal for a program that opens the streams. An error
// stops no worker.
func (q *Queue) firstJournal(ctx context.Context) {
	if _, err := q.EnsureJournal(ctx); err != nil {
		q.log.Warn().Err(err).Str("stream", q.n.journal).
			Msg("the journal of people's acts cannot be used; orders go on without it, but most commands that change something are refused")
	}
}

// AppendJournal stores an entry under a name that no other entry has: the
// subject's tokens after the prefix. Repeated with the same name it stores
// nothing twice. It creates a missing journal where it may. Error: ErrNoJournal,
// settle.ErrFull, nats.ErrPermissionViolation (wrapped).
func (q *Queue) AppendJournal(ctx context.Context, name string, entry []byte) error {
	return q.UnlessRefused(ctx, func(ctx context.Context) error {
		return q.patiently(ctx, func(ctx context.Context) error {
			err := q.appendJournal(ctx, name, entry)
			if !errors.Is(err, jetstream.ErrNoStreamResponse) {
				return err
			}
			made, ensureErr := q.EnsureJournal(ctx)
			switch {
			case made:
				return q.appendJournal(ctx, name, entry)
			case errors.Is(ensureErr, nats.ErrPermissionViolation):
				return fmt.Errorf("%w: stream %s does not exist; start a worker of this version, which creates it", ErrNoJournal, q.n.journal)
			}
			return errors.Join(err, ensureErr)
		})
	})
}

// appendJournal tries it once.
func (q *Queue) appendJournal(ctx context.Context, name string, entry []byte) error {
	ctx, cancel := q.link.bound(ctx)
	defer cancel()
	_, err := q.js.PublishMsg(ctx, &nats.Msg{Subject: q.n.journalPre + name, Data: entry}, jetstream.WithExpectStream(q.n.journal))
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &api):
		return fmt.Errorf("stream %s: the broker did not confirm the entry: %w", q.n.journal, err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		return nil // an earlier try stored it
	case slices.Contains(fullCodes, api.ErrorCode):
		return fmt.Errorf("stream %s: %w: %s", q.n.journal, settle.ErrFull, api.Description)
	default:
		return fmt.Errorf("stream %s: the broker refused the entry: %w", q.n.journal, err)
	}
}

// UnlessRefused calls do with a context that ends when the broker reports that
// this program's NATS user lacks a permission. A refused request gets no answer
// and would wait for its timeout. The error then says what was refused.
func (q *Queue) UnlessRefused(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	refused := q.refusals.disconnected()
	go func() {
		select {
		case <-refused:
			cancel(fmt.Errorf("the broker refuses it: %w", *q.outages.refusal.Load()))
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		return cause
	}
	return err
}
