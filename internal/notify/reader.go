package notify

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// readEvery is the time between two looks for new results while there are some, and
	// quietEvery while there are none. A receiver hears of an outcome as much later.
	readEvery, quietEvery = 20 * time.Millisecond, 200 * time.Millisecond
	// quietAfter is how long there are none until looks become rare.
	quietAfter = 10 * time.Second
	// resumeEvery is how often the reader makes sure that the stream is still the same.
	resumeEvery = 5 * time.Second
)

// errLost means that the results are not those any more that the position is about.
var errLost = errors.New("the broker lost the end of the results, or has others")

// reader reads the results in their order and gives their events their turns.
type reader struct {
	queue  *queue.Queue
	filter *filter
	window *window
	turns  *turns
	log    zerolog.Logger

	resumed time.Time
	news    time.Time // when there was something new
}

// run reads until ctx ends, or until it finds errLost.
func (r *reader) run(ctx context.Context) error {
	r.news, r.resumed = time.Now(), time.Now()
	for {
		if err := r.round(ctx); err != nil {
			return err
		}
		wait := readEvery
		if time.Since(r.news) > quietAfter {
			wait = quietEvery
		}
		if err := settle.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// round reads what is new.
func (r *reader) round(ctx context.Context) error {
	state, err := r.queue.Results().State(ctx)
	if err != nil {
		return err
	}
	read := r.window.reached()
	if state.LastSeq < read.Seq || state.Birth != read.Birth {
		return errLost
	}
	if time.Since(r.resumed) >= resumeEvery {
		r.resumed = time.Now()
		from, err := resume(ctx, r.queue, read)
		if err != nil {
			return err
		}
		if from.Seq != read.Seq {
			return errLost
		}
	}
	if state.LastSeq == read.Seq {
		return nil
	}
	defer func() {
		if r.window.reached().Seq != read.Seq {
			r.news = time.Now()
		}
	}()
	return r.queue.Results().Walk(ctx, read.Seq+1, queue.ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			if err := r.take(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// take gives one record's event its turn. A record that this version cannot read is
// passed over: nobody could tell what became of the order.
func (r *reader) take(ctx context.Context, m *settle.Message) error {
	if err := r.window.wait(ctx); err != nil {
		return err
	}
	entry, err := queue.DecodeRecord(m)
	var msg *message
	if err == nil {
		msg, err = messageOf(entry, r.queue.Results().Token(m), m.Time, r.filter)
	}
	if err != nil {
		r.log.Warn().Err(err).Msg("a result is not told: it cannot be read; look it up with a newer version of this program")
	}
	if msg == nil || queue.Kept(m) {
		r.window.pass(m.Seq, m.Time)
		return nil
	}
	r.turns.add(msg.token, job{msg: msg, place: r.window.add(m.Seq, m.Time)})
	return nil
}
