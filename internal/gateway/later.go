package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"orderpost/internal/door"
)

// parkAfter is how long a wait keeps what net/http holds for a request: two goroutines with
// deep stacks and several buffers. A wait that lasts longer goes on without net/http, for a
// fraction of the memory, and its connection is closed with its answer.
const parkAfter = time.Second

// later is the "error" of a request whose client may have to wait long. It must not hold
// the call of the request.
type later struct {
	// more serves the rest of the request with a call of its own, in a goroutine. nil =
	// the rest is poll.
	more func(*call) error
	// writes says that more writes every now and then, and so notices a client that is gone.
	writes bool
	poll   *poll
}

// Error implements error.
func (*later) Error() string { return "the rest of the request is served later" }

// serve serves the rest in the goroutine of the request.
func (l *later) serve(c *call) error {
	if l.more != nil {
		return l.more(c)
	}
	o, err := c.await(door.Outcome{OrderNo: l.poll.orderNo, ID: l.poll.id, Pending: true}, l.poll.wait)
	switch {
	case err != nil:
		return err
	case o.Pending:
		c.answer(http.StatusOK, l.poll.known)
	default:
		c.answer(http.StatusOK, c.client.outcomeOf(o))
	}
	return nil
}

// park serves the rest of a request on its bare connection. It returns false where the
// connection cannot be taken from net/http.
func (c *call) park(rt route, l *later, began time.Time) bool {
	c.s.parked.Add(1) // before the connection leaves those that Shutdown waits for
	defer c.s.parked.Done()
	conn, _, err := c.control.Hijack()
	if err != nil {
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	c.s.crowds.parked()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.s.drain))
	seen := &answered{ResponseWriter: &bare{conn: conn}}
	parked := &call{Request: (&http.Request{Method: c.Method, Body: http.NoBody}).WithContext(ctx), w: seen, control: http.NewResponseController(seen),
		client: c.client, need: c.need, certified: c.certified, s: c.s, release: c.release, parked: true}
	if c.s.clients != nil {
		c.s.underWay.add(parked, cancel)
		c.s.underWay.remove(c) // it holds all that net/http has
	}
	end := func(err error) {
		defer cancel(nil)
		defer func() { _ = conn.Close() }()
		parked.end(rt, seen, began, err)
	}
	if !l.writes {
		c.s.parked.Go(func() { watch(conn, func() { cancel(nil) }) })
	}
	if l.more != nil {
		c.s.parked.Go(func() { end(parked.safely(func() error { return l.more(parked) })) })
		return true
	}
	c.s.parked.Add(1)
	l.poll.begin(parked, func(err error) { // it must not hold c, which holds all that net/http has
		defer parked.s.parked.Done()
		end(err)
	})
	return true
}

// poll waits for one outcome without a goroutine.
type poll struct {
	orderNo, id string
	known       *outcome // by the beginning
	wait        time.Duration

	c    *call
	end  func(error)
	once sync.Once
	mu   sync.Mutex // guards stop
	stop []func()
}

// begin looks whenever something may have changed, and answers once there is an outcome,
// the wait is over, the client is gone or may not have the answer any more, or the door closes.
func (p *poll) begin(c *call, end func(error)) {
	p.c, p.end = c, end
	timer := time.AfterFunc(p.wait, p.over)
	gone, drain := context.AfterFunc(c.Context(), p.over), context.AfterFunc(c.s.drain, p.over)
	p.onEnd(func() { timer.Stop(); gone(); drain() })
	p.onEnd(c.s.door.Watch(c.Context(), p.orderNo, p.look))
}

// onEnd has stop called at the end, or at once if that is over.
func (p *poll) onEnd(stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop = append(p.stop, stop); p.end == nil {
		stop()
	}
}

// look answers if there is an outcome.
func (p *poll) look() {
	ctx, cancel := context.WithTimeout(p.c.Context(), lookTimeout)
	defer cancel()
	o, err := p.c.s.door.Outcome(ctx, p.orderNo, p.id)
	switch {
	case p.c.Context().Err() != nil: // p.over comes, too
	case errors.Is(err, door.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		again := time.AfterFunc(retrySlots, p.look) // an outage does not end a wait
		p.onEnd(func() { again.Stop() })
	case err != nil:
		p.done(looking(err), nil)
	case !o.Pending:
		p.done(nil, p.c.client.outcomeOf(o))
	}
}

// over answers with what is known by now.
func (p *poll) over() {
	p.done(nil, p.known)
}

// done answers, once.
func (p *poll) done(err error, o *outcome) {
	p.once.Do(func() {
		p.mu.Lock()
		end, stop := p.end, p.stop
		p.end, p.stop = nil, nil
		p.mu.Unlock()
		for _, s := range stop {
			s()
		}
		if err == nil {
			if revoked := p.c.recheck(); revoked != nil {
				err = revoked
			}
		}
		if err == nil {
			err = p.c.safely(func() error { p.c.answer(http.StatusOK, o); return nil })
		}
		end(err)
	})
}

// watch calls gone when the client closes the connection, or has sent mostIgnored bytes: it
// waits for no answer.
func watch(conn net.Conn, gone func()) {
	var b [64]byte
	for left := mostIgnored; left > 0; {
		n, err := conn.Read(b[:])
		if left -= n; err != nil {
			break
		}
	}
	gone()
}

// mostIgnored is how many bytes of a client that waits are read and thrown away.
const mostIgnored = 64 << 10

// bare writes an answer to a connection, and says that the connection is closed behind it.
type bare struct {
	conn   net.Conn
	header http.Header
	head   []byte // written together with the first part of the body
	begun  bool
}

// Header implements http.ResponseWriter.
func (b *bare) Header() http.Header {
	if b.header == nil {
		b.header = make(http.Header)
	}
	return b.header
}

// WriteHeader implements http.ResponseWriter.
func (b *bare) WriteHeader(status int) {
	if b.begun {
		return
	}
	b.begun = true
	b.Header().Set("Connection", "close")
	b.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = b.header.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	b.head, b.header = head.Bytes(), nil
}

// Write implements http.ResponseWriter.
func (b *bare) Write(part []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if b.head != nil {
		whole := append(b.head, part...)
		b.head = nil
		if _, err := b.conn.Write(whole); err != nil {
			return 0, err
		}
		return len(part), nil
	}
	return b.conn.Write(part)
}

// FlushError is for http.ResponseController. Only a header can still wait: parts are not held back.
func (b *bare) FlushError() error {
	if b.begun && b.head == nil {
		return nil
	}
	_, err := b.Write(nil)
	return err
}

// SetWriteDeadline is for http.ResponseController.
func (b *bare) SetWriteDeadline(at time.Time) error { return b.conn.SetWriteDeadline(at) }
