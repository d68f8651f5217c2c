package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"orderpost/internal/door"
	"orderpost/internal/order"
)

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
