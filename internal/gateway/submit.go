package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/gateway/door"
	"orderpost/internal/ops/tracing/span"
	"orderpost/internal/order"
)

// submit stores one order, or one on each line.
func (c *call) submit() (err error) {
	done := c.serving()
	defer func() { done(err) }()
	kind, p := bodyKind(c.Request)
	if p != nil {
		return p
	}
	o, key, p := orderOf(c.Request, c.client)
	if p != nil {
		return p
	}
	if kind == mediaLines {
		return c.submitLines(o, key)
	}
	if c.ContentLength > int64(c.client.maxBody) {
		c.w.Header().Set("Connection", "close")
		return tooLargeBody(c.client.maxBody)
	}
	if o.Body, p = c.body(); p != nil {
		return p
	}
	o.ID = submissionID(c.client.name, key, o.Body)
	return c.store(o)
}

// body reads the body of one order.
func (c *call) body() ([]byte, *problem) {
	_ = c.control.SetReadDeadline(time.Now().Add(c.s.bodyTimeout))
	defer c.bodyEnds()()
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, int64(c.client.maxBody)))
	if p := c.recheck(); p != nil {
		c.w.Header().Set("Connection", "close")
		return nil, p
	}
	if err != nil {
		c.w.Header().Set("Connection", "close")
		return nil, bodyProblem(err, c.client.maxBody)
	}
	c.read = true
	_ = c.control.SetReadDeadline(time.Time{}) // else it would end the request while the broker stores it
	return body, nil
}

// store stores one order and answers once the broker confirmed it.
func (c *call) store(o door.Order) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), c.s.storeTimeout) // a client that has ended its side ends the request's own
	defer cancel()
	span := c.traced(&o)
	r, err := c.s.door.Submit(ctx, o)
	if err != nil {
		p := c.storeProblem(err, r.OrderNo, o.ID)
		c.ended(span, r, o.ID, p)
		return p
	}
	out := c.ended(span, r, o.ID, nil)
	c.w.Header().Set("Location", orderURL(r.OrderNo, r.ID))
	c.answer(out.Status, out)
	return nil
}

// ended counts an order, or what is wrong with it, and ends its span. It returns the answer to an order
// that is stored, with the ID that it was sent with.
func (c *call) ended(s trace.Span, r door.Receipt, id string, p *problem) receipt {
	out := receipt{Status: http.StatusCreated, OrderNo: r.OrderNo, Submission: id, Result: r.Status.String()}
	if r.Status == door.Same {
		out.Status = http.StatusOK
	}
	if p != nil {
		out.Result = p.name()
	}
	c.s.Metrics.Submitted(out.Result)
	if s == nil {
		return out
	}
	s.SetAttributes(span.OrderNo.String(r.OrderNo))
	if p != nil {
		s.SetStatus(codes.Error, p.name())
		span.Failed(s, p.name())
	}
	s.End()
	return out
}

// orderURL returns where the outcome of a submission is, or without one that of the order.
func orderURL(orderNo, submission string) string {
	where := "/v1/orders?order_no=" + escape(orderNo)
	if submission != "" {
		where += "&submission=" + escape(submission)
	}
	return where
}

// escape escapes the value of a parameter, and a blank as %20: not every proxy takes + for one.
func escape(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// answer answers with a value of ours as JSON.
func (c *call) answer(status int, v any) {
	c.deadline()
	c.w.Header().Set("Content-Type", mediaJSON)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(jsonLine(v)) // the client is gone
}

// The media types of bodies.
const (
	mediaJSON   = "application/json"
	mediaLines  = "application/x-ndjson"
	mediaEvents = "text/event-stream"
)

// The headers of an order, besides Order-Lane the same as over NATS.
const (
	headerKey         = "Idempotency-Key"
	headerDeadline    = "Order-Deadline"
	headerNotBefore   = "Order-Not-Before"
	headerLane        = "Order-Lane"
	headerBatch       = "Order-Batch"
	headerTraceparent = "traceparent"
)

// orderHeaders say what becomes of one order. Each may come once.
var orderHeaders = []string{headerDeadline, headerNotBefore, headerLane, headerBatch}

const (
	// maxKey bounds an Idempotency-Key in bytes.
	maxKey = 255
	// maxBatch bounds Order-Batch in bytes: a record would cut a longer one.
	maxBatch = 1024
)

// bodyKind returns the media type of a body: mediaJSON or mediaLines.
func bodyKind(r *http.Request) (string, *problem) {
	given := r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(given)
	if err != nil || kind != mediaJSON && kind != mediaLines || !isUTF8(params["charset"]) {
		return "", badMedia("Content-Type", given, "send "+mediaJSON+" for one order, or "+mediaLines+" for one on each line, in UTF-8", mediaJSON, mediaLines)
	}
	if given := r.Header.Get("Content-Encoding"); given != "" && !strings.EqualFold(given, "identity") {
		return "", badMedia("Content-Encoding", given, "send the body as it is", mediaJSON, mediaLines)
	}
	return kind, nil
}

// isUTF8 reports whether a charset is UTF-8 by one of the names that clients use, or ASCII, which
// is a part of it. JSON itself knows no charset.
func isUTF8(charset string) bool {
	switch strings.ToLower(strings.Trim(charset, "'\" ")) {
	case "", "utf-8", "utf8", "utf_8", "unicode-1-1-utf-8", "us-ascii", "ascii":
		return true
	}
	return false
}

// badMedia is the problem of a header that says what the body is. accepted are the media
// types that the address takes.
func badMedia(header, seen, do string, accepted ...string) *problem {
	p := problemOf(mediaType, "header "+header, fmt.Sprintf("%q", order.Clip(seen, 100)), do)
	p.accept = strings.Join(accepted, ", ")
	return p
}

// orderOf reads the order's headers. The client's name is the order's source, whatever a
// header says.
func orderOf(r *http.Request, c *client) (o door.Order, key string, p *problem) {
	h := r.Header
	for _, name := range orderHeaders {
		switch values := h.Values(name); {
		case len(values) > 1: // each of them would be another order
			return o, "", problemOf(badRequest, "header "+name, fmt.Sprintf("it is there %d times", len(values)), "give it once")
		case len(values) == 1 && values[0] == "":
			return o, "", problemOf(badRequest, "header "+name, "it is empty", "give it a value, or leave it out")
		}
	}
	o = door.Order{Source: c.name, Lane: h.Get(headerLane), Batch: h.Get(headerBatch), Traceparent: h.Get(headerTraceparent)}
	if key, p = readKey(h); p != nil {
		return o, "", p
	}
	if len(o.Batch) > maxBatch || !utf8.ValidString(o.Batch) {
		return o, "", problemOf(invalidOrder, "header "+headerBatch, fmt.Sprintf("%d bytes", len(o.Batch)), fmt.Sprintf("give at most %d bytes of UTF-8", maxBatch))
	}
	if o.Lane != "" {
		if err := order.CheckLane(o.Lane); err != nil {
			return o, "", problemOf(invalidOrder, "header "+headerLane, err.Error(), "")
		}
	}
	if o.Deadline, p = readTime(h.Get(headerDeadline), "header "+headerDeadline, true); p == nil {
		o.NotBefore, p = readTime(h.Get(headerNotBefore), "header "+headerNotBefore, false)
	}
	return o, key, p
}

// readTime reads a time; zero = there is none. where is its place in the request.
func readTime(text, where string, deadline bool) (time.Time, *problem) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := order.ParseNotBefore(text, time.Now())
	if deadline {
		at, err = time.Parse(time.RFC3339, text)
		if err != nil {
			err = fmt.Errorf("%q is not an RFC 3339 time such as 2026-11-23T18:00:00Z", order.Clip(text, 60))
		}
	}
	if err != nil {
		return time.Time{}, problemOf(invalidOrder, where, err.Error(), "")
	}
	return at, nil
}

// readKey reads the Idempotency-Key; "" = there is none. It may be in quotes, as the
// draft of its standard has it.
func readKey(h http.Header) (string, *problem) {
	given := h.Values(headerKey)
	if len(given) == 0 {
		return "", nil
	}
	key := given[0]
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if len(given) > 1 || key == "" || len(key) > maxKey || !visible(key) {
		return "", problemOf(badRequest, "header "+headerKey, fmt.Sprintf("%q", order.Clip(strings.Join(given, ", "), 60)),
			fmt.Sprintf("give one key of 1 to %d visible ASCII characters, such as a UUID", maxKey))
	}
	return key, nil
}

func visible(key string) bool {
	return strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// submissionID names a submission. The client's name begins it: the broker takes two
// messages with one id for the same one, and no client must be able to hide another's
// orders. Without a key the id comes from the body, so that a repeated POST is the same
// submission.
func submissionID(client, key string, body []byte) string {
	if key == "" {
		key = "sha256-" + bodyHash(body)
	}
	return client + ":" + key
}

// bodyHash returns the hash of what the body says, without its timestamp, which the
// worker replaces.
func bodyHash(body []byte) string {
	if parsed, err := order.Parse(body); err == nil {
		return parsed.BodyHash()
	}
	sum := sha256.Sum256(body) // it is about to be refused
	return hex.EncodeToString(sum[:])
}

// lineKey returns the key of one line of a stream that has a key.
func lineKey(key string, line int) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", key, line)
}

// serving starts the span of a request that brings orders, below the client's. done ends
// it. If the client's traceparent cannot be read, it goes on as it is, without spans.
func (c *call) serving() (done func(error)) {
	if c.s.Trace == nil {
		return func(error) {}
	}
	given := c.Header.Get(headerTraceparent)
	ctx := span.Context(given)
	if given != "" && !trace.SpanContextFromContext(ctx).IsValid() {
		return func(error) {}
	}
	var s trace.Span
	c.within, s = span.Serving(ctx, c.s.Trace, c.TLS != nil)
	return func(err error) {
		status := http.StatusInternalServerError // without an answer or a problem it panicked
		if p, ok := errors.AsType[*problem](err); ok {
			status = p.Status
		} else if w, ok := c.w.(*answered); ok && w.status != 0 {
			status = w.status
		}
		span.Answered(s, status)
		if status >= http.StatusInternalServerError {
			s.SetStatus(codes.Error, "")
			span.Failed(s, strconv.Itoa(status))
		}
		s.End()
	}
}

// traced starts the span of an order: from its arrival to the broker's confirmation. The
// order carries it on to the worker. It holds no body.
func (c *call) traced(o *door.Order) trace.Span {
	if c.within == nil {
		return nil
	}
	stream := c.s.Queue.StreamOf(o.Lane != "" || o.NotBefore.After(time.Now()))
	ctx, s := span.Send.Start(c.within, c.s.Trace, stream, o.ID, trace.WithAttributes(span.Source.String(o.Source), span.Batch.String(o.Batch)))
	o.Traceparent = span.Header(ctx)
	return s
}
