package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"orderpost/internal/gateway/door"
)

const (
	// aheadLines and aheadBytes bound what is read before its answer is written. One line
	// may be larger than that alone.
	aheadLines = 4096
	aheadBytes = 4 << 20
	// flushBytes is how much of the answer is kept back while more of it is about to come.
	flushBytes = 32 << 10
)

// line is one line of a stream: an order, or why there is none.
type line struct {
	n     int
	order door.Order
	wrong *problem
	last  bool // nothing is read behind it
	size  int64
	span  trace.Span // nil = no traces
}

// lineReader reads the lines of a stream ahead of their answers.
type lineReader struct {
	call *call
	like door.Order // has the headers of the request
	key  string
	in   *bufio.Reader
	room *semaphore.Weighted
	read chan line // in the order in which their answers come
}

// submitLines stores one order for each line, and answers each line in order while the
// next ones are read. The status of the answer says nothing: each line has its own.
func (c *call) submitLines(like door.Order, key string) error {
	_ = c.control.EnableFullDuplex()
	// In full duplex net/http reads no rest of the body: where a stream ends early, it would
	// take the rest for another request.
	c.w.Header().Set("Connection", "close")
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context())) // a read that fails ends the request's own
	r := &lineReader{call: c, like: like, key: key, in: bufio.NewReaderSize(c.Body, 64<<10), read: make(chan line, aheadLines), room: semaphore.NewWeighted(aheadBytes)}
	endRead := func() { _ = c.control.SetReadDeadline(time.Now()) }
	defer context.AfterFunc(c.s.drain, endRead)()
	defer c.bodyEnds()()
	f := &feed{call: c, media: mediaLines}
	ended, end := make(chan struct{}), c.limitRest
	defer func() {
		cancel()
		end()
		<-ended // the body must not be read once the handler has returned
	}()
	orders := func(yield func(door.Order) bool) {
		defer close(ended)
		r.orders(ctx, yield)
	}
	var answers []byte
	for receipt, err := range c.s.door.SubmitAll(ctx, orders) {
		l := <-r.read
		answer, more := c.lineAnswer(l, receipt, err)
		answers = append(answers, answer...)
		r.room.Release(l.size)
		if !more {
			break
		}
		if len(answers) < flushBytes && len(r.read) > 0 {
			continue // another answer comes without the client's doing
		}
		if f.write(answers) != nil || f.flush() != nil {
			end = endRead // the client does not read
			return nil
		}
		answers = answers[:0]
	}
	_ = f.write(answers) // an empty stream has an empty answer
	_ = f.flush()        // the rest of the body may take a while
	return nil
}

// lineAnswer returns the answer to one line. more is false if the stream ends here: the
// client sends it again from the beginning.
func (c *call) lineAnswer(l line, r door.Receipt, err error) (answer []byte, more bool) {
	p := l.wrong
	if p == nil && err != nil {
		p = c.storeProblem(err, r.OrderNo, l.order.ID)
	}
	out := c.ended(l.span, r, l.order.ID, p)
	if p != nil {
		p.Line = l.n
		return jsonLine(p), !l.last && p.Status < http.StatusInternalServerError
	}
	out.Line = l.n
	return jsonLine(out), true
}

// orders yields the order of each line until the body ends. A line that is wrong in itself
// is yielded without a body, so that its answer has its place among the others.
func (r *lineReader) orders(ctx context.Context, yield func(door.Order) bool) {
	for n := 1; ; n++ {
		l, more := r.next(ctx, n)
		if !more {
			return
		}
		if n > 1 && r.call.client.limits.pace.Wait(ctx) != nil {
			return
		}
		if l.size = min(int64(len(l.order.Body)), aheadBytes); l.size == 0 && l.wrong == nil {
			continue // an empty line takes from the rate, too: a flood of them takes the door's time
		}
		if r.room.Acquire(ctx, l.size) != nil {
			return
		}
		select {
		case r.read <- l:
		case <-ctx.Done():
			return
		}
		if !yield(l.order) || l.last {
			return
		}
	}
}

// next reads line n. more is false at the end of the body, or of ctx.
func (r *lineReader) next(ctx context.Context, n int) (l line, more bool) {
	_ = r.call.control.SetReadDeadline(time.Now().Add(r.call.s.bodyTimeout))
	if ctx.Err() != nil { // what ends it sets another deadline afterwards
		return l, false
	}
	l = line{n: n, order: r.like}
	var text []byte
	err := r.call.s.drain.Err() // if it ends from here on, it ends the read
	if err == nil && r.call.revoked() == nil {
		text, err = r.text()
	}
	revoked := r.call.recheck()
	switch {
	case r.call.s.drain.Err() != nil:
		l.wrong, l.last = problemOf(draining, "", "this line and those behind it were not stored", "send the stream again").retry(retryDraining), true
		return l, true
	case errors.Is(err, io.EOF) && len(text) == 0:
		r.call.read = true
		return l, false
	case revoked != nil:
		l.wrong, l.last = revoked, true
		return l, true
	case errors.Is(err, io.EOF):
		r.call.read = true
	case errors.Is(err, errLongLine):
		l.wrong, l.last = tooLargeBody(r.call.client.maxBody), true
		return l, true
	case err != nil:
		l.wrong, l.last = bodyProblem(err, r.call.client.maxBody), true
		return l, true
	}
	l.order.Body = bytes.TrimRight(text, "\r\n")
	l.order.ID = submissionID(r.call.client.name, lineKey(r.key, n), l.order.Body)
	if len(l.order.Body) > 0 {
		l.span = r.call.traced(&l.order)
	}
	return l, true
}

var errLongLine = errors.New("the line is too long")

// text reads one line of at most the client's largest body.
func (r *lineReader) text() ([]byte, error) {
	var text []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if text = append(text, part...); len(text) > r.call.client.maxBody+len("\r\n") {
			return nil, errLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}
