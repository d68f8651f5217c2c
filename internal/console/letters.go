package console

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// lookFor is how long a page may take to bring the index up to date. The rest is
	// read in the background.
	lookFor = 50 * time.Millisecond
	// lettersTimeout bounds what a page waits for the broker.
	lettersTimeout = time.Second
	// lettersRetry is when reading goes on that has failed.
	lettersRetry = time.Second
)

// letterWatch is the index of dead letters that all pages share. Pages bring it up to
// date, at most once a second; what takes longer is read in the background.
type letterWatch struct {
	*deadletter.LetterIndex
	log zerolog.Logger

	turn sync.Mutex // whoever follows the stream
	at   time.Time  // when that was last done; turn guards it
	more chan struct{}

	mu   sync.Mutex
	kept map[string]keptSelection // by the filter's address
}

// keptSelection is a selection that the next refresh of a page shows again, if no
// letter came or went.
type keptSelection struct {
	*deadletter.LetterSelection
	at time.Time
}

const (
	// keepSelection bounds how old ages in a filter, such as 24h, may be.
	keepSelection = 10 * time.Second
	// maxKept bounds the selections that are kept.
	maxKept = 32
)

func newLetters(q *queue.Queue, log zerolog.Logger) *letterWatch {
	return &letterWatch{LetterIndex: deadletter.NewLetterIndex(q), log: log, more: make(chan struct{}, 1), kept: make(map[string]keptSelection)}
}

// selection counts what a filter selects.
func (l *letterWatch) selection(f deadletter.LetterFilter, m *deadletter.LetterMatcher) *deadletter.LetterSelection {
	key := lettersAt(f)
	l.mu.Lock()
	kept, found := l.kept[key]
	l.mu.Unlock()
	if age := time.Since(kept.at); found && (age < freshFor || age < keepSelection && kept.Version == l.Version()) {
		return kept.LetterSelection
	}
	s := keptSelection{l.Select(m), time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) >= maxKept {
		clear(l.kept)
	}
	l.kept[key] = s
	return s.LetterSelection
}

// look brings the index up to date, unless that is being done or was just done. It
// reports whether the broker has answered.
func (l *letterWatch) look(ctx context.Context) (answered bool) {
	if !l.turn.TryLock() {
		return false
	}
	defer l.turn.Unlock()
	if time.Since(l.at) < freshFor {
		return false
	}
	// The reading goes on for the others if this person closes the page.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lettersTimeout)
	defer cancel()
	more, err := l.Follow(ctx, lookFor)
	l.note(err)
	l.at = time.Now()
	if more || err != nil {
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
	return err == nil
}

// anew makes the next page read anew.
func (l *letterWatch) anew() {
	l.turn.Lock()
	l.at = time.Time{}
	l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.kept)
}

func (l *letterWatch) note(err error) {
	if err != nil && !away(err) {
		l.log.Warn().Err(err).Msg("dead letters could not be read for the console")
	}
}

// run reads what a page began and left, until ctx ends.
func (l *letterWatch) run(ctx context.Context, watched func() bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.more:
		}
		for more := true; more && ctx.Err() == nil && watched(); {
			l.turn.Lock()
			var err error
			more, err = l.Follow(ctx, followFor)
			l.at = time.Now()
			l.turn.Unlock()
			if err != nil && ctx.Err() == nil {
				l.note(err)
				more = true
				_ = settle.Sleep(ctx, lettersRetry)
			}
		}
	}
}

// seeLetters returns the index as it is now.
func seeLetters(v *visit) *letterWatch {
	w := v.s.watch
	w.see()
	if w.queue.Conn.Connected() && w.letters.look(v.Context()) {
		w.mu.Lock()
		w.note(false)
		w.mu.Unlock()
		return w.letters
	}
	w.noteConnection()
	return w.letters
}
