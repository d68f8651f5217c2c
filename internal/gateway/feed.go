package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"orderpost/internal/gateway/door"
)

const (
	// firstLine is how long an answer of lines waits for an outcome if there may be one
	// already, and linger how long it waits for another one once it has one.
	firstLine = time.Second
	linger    = 50 * time.Millisecond
	// maxLines bounds the outcomes in one answer of lines, and its parameter limit.
	maxLines = 10_000
	// beatEvery is how often a feed of events says that it is alive.
	beatEvery = 15 * time.Second
)

// outcomes answers with outcomes from a position on. Lines end at the present end, or with the first
// outcomes that come within wait; events have no end.
func (c *call) outcomes() error {
	ctx, cancel := context.WithTimeout(c.Context(), c.s.lookTimeout)
	defer cancel()
	end, err := c.s.door.End(ctx)
	if err != nil {
		return lookupProblem(err)
	}
	after, p := c.after(end)
	if p != nil {
		return p
	}
	if c.wantsEvents() {
		return c.events(after)
	}
	limit, p := c.number("limit", "1000", 1)
	if p != nil {
		return p
	}
	wait, p := c.wait()
	if p != nil {
		return p
	}
	return c.lines(after, end, min(limit, maxLines), wait)
}

func (c *call) wantsEvents() bool { return strings.Contains(c.Header.Get("Accept"), mediaEvents) }

// after returns the position behind which the client begins. end is the present one.
func (c *call) after(end uint64) (after uint64, p *problem) {
	if id := c.Header.Get("Last-Event-ID"); id != "" && c.wantsEvents() {
		after, p = position("header Last-Event-ID", id)
	} else if c.query.Get("after") == "end" {
		after = end
	} else {
		after, p = c.number("after", "0", 0)
	}
	if p == nil && after > end {
		p = lookupProblem(door.ErrPosition)
	}
	return after, p
}

// number reads a parameter that is a number.
func (c *call) number(name, otherwise string, least uint64) (uint64, *problem) {
	text := c.query.Get(name)
	if text == "" {
		text = otherwise
	}
	n, p := position("parameter "+name, text)
	if p == nil && n < least {
		p = problemOf(badRequest, "parameter "+name, text, fmt.Sprintf("give at least %d", least))
	}
	return n, p
}

func position(where, text string) (uint64, *problem) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, problemOf(badRequest, where, fmt.Sprintf("%.40q", text), "give a whole number that is not negative")
	}
	return n, nil
}

// next is the last line of an answer of lines: where to go on. An answer without it is
// not whole.
type next struct {
	Next uint64 `json:"next"`
}

// lines writes outcomes as lines, up to the present end or to the limit.
func (c *call) lines(after, end, limit uint64, wait time.Duration) error {
	f := &feed{call: c, media: mediaLines, at: after}
	over := time.Now().Add(wait)
	ctx, quiet := context.WithCancel(c.Context())
	defer quiet()
	defer context.AfterFunc(c.s.drain, quiet)()
	pause := time.AfterFunc(within(over, after < end), quiet)
	defer pause.Stop()
	n := uint64(0)
	for o, err := range c.s.door.Outcomes(ctx, after) {
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return lookupProblem(err)
		}
		if p := c.recheck(); p != nil {
			p.cut = f.begun
			return p
		}
		before := f.at
		if f.at = o.Position; !c.client.sees(o) {
			switch {
			case f.at < end: // there are more: it ends only where nothing moves
				pause.Reset(within(over, true))
			case n > 0:
				quiet()
			case before < end: // from here on it waits for the first one
				pause.Reset(within(over, false))
			}
			continue
		}
		if err := f.write(jsonLine(c.client.outcomeOf(o))); err != nil {
			return nil //nolint:nilerr // the client does not read
		}
		if n++; n >= limit && f.at > after { // a record may tell of several submissions
			break
		}
		pause.Reset(linger)
	}
	if p := c.recheck(); p != nil {
		p.cut = f.begun
		return p
	}
	if c.Context().Err() == nil {
		_ = f.write(jsonLine(next{f.at}))
		_ = f.flush()
	}
	return nil
}

// within returns how long an answer of lines that is over at a time waits for the next
// outcome. more says that there is one already, which may be another client's.
func within(over time.Time, more bool) time.Duration {
	left := max(time.Until(over), 0)
	if more {
		left = max(left, firstLine)
	}
	return left
}

// events writes outcomes as server-sent events until the client or the door goes, or the
// client's token is not good any more.
func (c *call) events(after uint64) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(c.s.drain, cancel)()
	f := &feed{call: c, media: mediaEvents, at: after, written: after, flushes: true}
	if f.write([]byte("retry: 2000\n")) != nil { // without an empty line, which some clients take for an event
		return nil
	}
	defer f.heartbeat(cancel)()
	for o, err := range c.s.door.Outcomes(ctx, after) {
		if err != nil {
			if ctx.Err() == nil {
				c.s.Log.Debug().Err(err).Msg("a feed of the HTTP door ends; its client comes back")
			}
			return nil
		}
		if c.recheck() != nil {
			return nil
		}
		if !c.client.sees(o) {
			f.skip(o.Position)
			continue
		}
		if f.event(o) != nil {
			return nil
		}
	}
	return nil
}

// feed writes the parts of a long answer. Its methods may be called by several goroutines.
type feed struct {
	*call
	media   string
	flushes bool // each part goes out at once

	mu      sync.Mutex
	begun   bool
	at      uint64 // the position of the last outcome that was written or left out
	written uint64 // the last position that was written
}

// write writes one part of the answer. The first one sends the header before it.
func (f *feed) write(part []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeLocked(part)
}

func (f *feed) writeLocked(part []byte) error {
	f.deadline()
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", f.media)
		f.w.Header().Set("Cache-Control", "no-store")
		f.w.Header().Set("X-Accel-Buffering", "no") // a proxy must not hold it back
		f.w.WriteHeader(http.StatusOK)
	}
	if _, err := f.w.Write(part); err != nil {
		return err
	}
	if f.flushes {
		return f.control.Flush()
	}
	return nil
}

func (f *feed) flush() error { return f.control.Flush() }

// event writes one outcome as an event, whose id is its position.
func (f *feed) event(o door.Outcome) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.written = o.Position, o.Position
	return f.writeLocked(fmt.Appendf(nil, "id: %d\nevent: outcome\ndata: %s\n", o.Position, jsonLine(f.client.outcomeOf(o))))
}

// skip notes an outcome that the client does not see.
func (f *feed) skip(position uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = position
}

// heartbeat says every now and then how far the feed is, if outcomes were left out: a client that sees
// few of them need not begin far back. Otherwise it says that the feed is alive, in a comment
// without an empty line, which some clients take for an event. It ends the feed of a client that is
// gone.
func (f *feed) heartbeat(end func()) (stop func()) {
	var timer *time.Timer
	stopped := false
	f.mu.Lock() // the first beat may come before the timer is known
	defer f.mu.Unlock()
	timer = time.AfterFunc(f.s.beatEvery, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if stopped {
			return
		}
		beat := []byte(": alive\n")
		if f.at > f.written {
			f.written = f.at
			beat = fmt.Appendf(nil, "id: %d\nevent: position\ndata: %s\n", f.at, jsonLine(next{f.at}))
		}
		if f.writeLocked(beat) != nil {
			end()
			return
		}
		timer.Reset(f.s.beatEvery)
	})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		stopped = true
		timer.Stop()
	}
}
