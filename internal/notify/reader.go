package notify

import (
	"context"
	"errors"
	"time"

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

// read reads the results in their order and gives their events their turns, until ctx ends, or until it
// finds errLost.
func (s *session) read(ctx context.Context) error {
	news, resumed := time.Now(), time.Now()
	for {
		before := s.window.reached().Seq
		resumes := time.Since(resumed) >= resumeEvery
		if resumes {
			resumed = time.Now()
		}
		if err := s.readOn(ctx, resumes); err != nil {
			return err
		}
		if s.window.reached().Seq != before {
			news = time.Now()
		}
		wait := readEvery
		if time.Since(news) > quietAfter {
			wait = quietEvery
		}
		if err := settle.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// readOn reads what is new. resumes says that it makes sure first that the stream is still the same.
func (s *session) readOn(ctx context.Context, resumes bool) error {
	state, err := s.queue.Results().State(ctx)
	if err != nil {
		return err
	}
	read := s.window.reached()
	if state.LastSeq < read.Seq || state.Birth != read.Birth {
		return errLost
	}
	if resumes {
		from, err := resume(ctx, s.queue, read)
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
	return s.queue.Results().Walk(ctx, read.Seq+1, queue.ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			if err := s.take(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// take gives one record's event its turn. A record that this version cannot read is
// passed over: nobody could tell what became of the order.
func (s *session) take(ctx context.Context, m *settle.Message) error {
	if err := s.window.wait(ctx); err != nil {
		return err
	}
	entry, err := queue.DecodeRecord(m)
	var msg *message
	if err == nil {
		msg, err = messageOf(entry, s.queue.Results().Token(m), m.Time, s.filter)
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("a result is not told: it cannot be read; look it up with a newer version of this program")
	}
	if msg == nil || queue.Kept(m) {
		s.window.pass(m.Seq, m.Time)
		return nil
	}
	s.turns.add(msg.token, job{msg: msg, place: s.window.add(m.Seq, m.Time)})
	return nil
}
