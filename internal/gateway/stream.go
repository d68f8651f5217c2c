package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"orderpost/internal/door"
)

const (
	// ahead bounds the lines that are read before they are stored, aheadBytes their size
	// unless one line alone is larger, and atOnce the lines that are stored together.
	ahead      = 2000
	aheadBytes = 4 << 20
	atOnce     = 500
)

// line is one line of a stream: an order, or why there is none.
type line struct {
	n     int
	order door.Order
	wrong *problem
	last  bool // nothing is read behind it
	size  int64
}

// lineReader reads the lines of a stream ahead of what is stored.
type lineReader struct {
	call  *call
	like  door.Order // has the headers of the request
	key   string
	in    *bufio.Reader
	lines chan line
	room  *semaphore.Weighted
}

// submitLines stores one order for each line, and answers each line in order while the
// next ones are read. The status of the answer says nothing: each line has its own.
func (c *call) submitLines(like door.Order, key string) error {
	_ = c.control.EnableFullDuplex()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context())) // a read that fails ends the request's own
	r := &lineReader{call: c, like: like, key: key, in: bufio.NewReaderSize(c.Body, 64<<10), lines: make(chan line, ahead), room: semaphore.NewWeighted(aheadBytes)}
	var reads sync.WaitGroup
	reads.Go(func() { r.run(ctx) })
	endRead := func() { _ = c.control.SetReadDeadline(time.Now()) }
	defer context.AfterFunc(c.s.drain, endRead)()
	defer func() {
		cancel()
		endRead()
		reads.Wait()
	}()
	f := &feed{call: c, media: mediaLines}
	for batch := range r.batches() {
		more, err := c.storeLines(ctx, f, batch)
		if err != nil || !more {
			return nil //nolint:nilerr // the client does not read
		}
		for _, l := range batch {
			r.room.Release(l.size)
		}
	}
	return f.write(nil) // an empty stream has an empty answer
}

// run reads lines until the body ends. It closes lines.
func (r *lineReader) run(ctx context.Context) {
	defer close(r.lines)
	for n := 1; ; n++ {
		l, more := r.next(n)
		if !more {
			return
		}
		if l.size = min(int64(len(l.order.Body)), aheadBytes); l.size == 0 && l.wrong == nil {
			continue // an empty line
		}
		if r.room.Acquire(ctx, l.size) != nil || n > 1 && r.call.client.limits.paced(ctx) != nil {
			return
		}
		select {
		case r.lines <- l:
		case <-ctx.Done():
			return
		}
		if l.last {
			return
		}
	}
}

// next reads line n. more is false at the end of the body.
func (r *lineReader) next(n int) (l line, more bool) {
	_ = r.call.control.SetReadDeadline(time.Now().Add(r.call.s.bodyTimeout))
	l = line{n: n, order: r.like}
	var text []byte
	err := r.call.s.drain.Err() // if it ends from here on, it ends the read
	if err == nil {
		text, err = r.text()
	}
	switch {
	case r.call.s.drain.Err() != nil:
		l.wrong, l.last = problemOf(draining, "", "this line and those behind it were not stored", "send the stream again").retry(retryDraining), true
		return l, true
	case errors.Is(err, io.EOF):
		if len(text) == 0 {
			return l, false
		}
	case errors.Is(err, errLongLine):
		l.wrong, l.last = tooLargeBody(r.call.client.maxBody), true
		return l, true
	case err != nil:
		l.wrong, l.last = reading(err, r.call.client.maxBody), true
		return l, true
	}
	l.order.Body = bytes.TrimRight(text, "\r\n")
	l.order.ID = submissionID(r.call.client.name, lineKey(r.key, n), l.order.Body)
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

// batches yields the lines that have been read meanwhile, at least one: a client that
// waits for each answer gets it, and one that does not has many stored together.
func (r *lineReader) batches() func(yield func([]line) bool) {
	return func(yield func([]line) bool) {
		for first := range r.lines {
			batch := append(make([]line, 0, len(r.lines)+1), first)
			for len(batch) < atOnce {
				select {
				case l, more := <-r.lines:
					if more {
						batch = append(batch, l)
						continue
					}
				default:
				}
				break
			}
			if !yield(batch) {
				return
			}
		}
	}
}

// storeLines stores a batch and answers each of its lines. more is false if the stream
// ends here: the client sends it again from the beginning.
func (c *call) storeLines(ctx context.Context, f *feed, batch []line) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.s.storeTimeout)
	defer cancel()
	orders := make([]door.Order, 0, len(batch))
	for _, l := range batch {
		if l.wrong == nil {
			orders = append(orders, l.order)
		}
	}
	var answers bytes.Buffer
	more, i := true, 0
	refuse := func(l line, p *problem) {
		p.Line = l.n
		more = more && !l.last && p.Status < http.StatusInternalServerError
		answers.Write(p.line())
		c.s.metrics.Submitted(p.name())
	}
	upTo := func(n int) { // answers the lines that are wrong in themselves
		for ; i < n && batch[i].wrong != nil; i++ {
			refuse(batch[i], batch[i].wrong)
		}
	}
	for r, err := range c.s.door.SubmitAll(ctx, slices.Values(orders)) {
		upTo(len(batch))
		l := batch[i]
		i++
		if err != nil {
			refuse(l, storing(err, r.OrderNo, l.order.ID))
			continue
		}
		out := receiptOf(r)
		out.Line = l.n
		answers.Write(jsonLine(out))
		c.s.metrics.Submitted(out.Result)
	}
	upTo(len(batch))
	if err := f.write(answers.Bytes()); err != nil {
		return false, err
	}
	return more, f.flush()
}
