package powercut

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// published is a message that a client sent to the broker.
type published struct {
	subject string
	header  string
	data    []byte
}

// readNATS finds the confirmations of stored messages, and the requests to remove some.
func (w *wire) readNATS(c *conn) error {
	waiting := make(map[string]published) // by the subject of the answer
	batches := make(map[string][]published)
	// Of a read that a kill interrupts, strace may show memory that nobody sent.
	certain := 0
	if n := len(c.inAt); n > 1 {
		certain = c.inAt[n-2].end
	}
	err := eachMessage(c.in.Bytes(), certain, "PUB", "HPUB", func(subject, reply string, header, data []byte, end int) {
		m := published{subject, string(header), data}
		if batch := headerOf(m.header, "Nats-Batch-Id"); batch != "" {
			batches[batch] = append(batches[batch], m)
		}
		if reply != "" {
			waiting[reply] = m
		}
		if e, ok := removal(subject, data); ok {
			e.line = lineOf(c.inAt, end)
			w.t.events = append(w.t.events, e)
		}
	})
	if err != nil {
		return err
	}
	return eachMessage(c.out.Bytes(), c.out.Len(), "MSG", "HMSG", func(subject, _ string, _, data []byte, end int) {
		m, asked := waiting[subject]
		if !asked || strings.HasPrefix(m.subject, "$JS.") {
			return
		}
		var ack struct {
			Stream    string `json:"stream"`
			Seq       uint64 `json:"seq"`
			Duplicate bool   `json:"duplicate"`
			Batch     string `json:"batch"`
			Count     int    `json:"count"`
		}
		if json.Unmarshal(data, &ack) != nil || ack.Seq == 0 || ack.Duplicate {
			return
		}
		stored := []published{m}
		if ack.Count > 1 {
			stored = batches[ack.Batch]
			stored = stored[max(0, len(stored)-ack.Count):]
		}
		for i, m := range stored {
			w.t.events = append(w.t.events, event{line: lineOf(c.outAt, end), stream: ack.Stream,
				seq: ack.Seq - uint64(len(stored)-1-i), subject: m.subject, data: m.data, passing: passing(m.header)})
		}
	})
}

// passing says whether a message expires within a day.
func passing(header string) bool {
	ttl := headerOf(header, "Nats-TTL")
	if ttl == "" {
		return false
	}
	if seconds, err := strconv.Atoi(ttl); err == nil {
		return seconds < 86400
	}
	return !strings.Contains(ttl, "h") || len(ttl) < 3
}

// removal reads a request to remove messages.
func removal(subject string, data []byte) (e event, ok bool) {
	switch token := strings.Split(subject, "."); {
	case strings.HasPrefix(subject, "$JS.ACK."):
		if kind := string(data); kind != "" && !strings.HasPrefix(kind, "+ACK") && !strings.HasPrefix(kind, "+NXT") && !strings.HasPrefix(kind, "+TERM") {
			return e, false
		}
		if len(token) > 9 { // with domain and account
			token = append(token[:2:2], token[4:]...)
		}
		if len(token) < 6 {
			return e, false
		}
		seq, err := strconv.ParseUint(token[5], 10, 64)
		return event{removed: true, stream: token[2], seq: seq}, err == nil
	case strings.HasPrefix(subject, "$JS.API.STREAM.MSG.DELETE."):
		var req struct {
			Seq uint64 `json:"seq"`
		}
		err := json.Unmarshal(data, &req)
		return event{removed: true, stream: token[len(token)-1], seq: req.Seq}, err == nil
	case strings.HasPrefix(subject, "$JS.API.STREAM.PURGE."):
		var req struct {
			Filter string `json:"filter"`
		}
		_ = json.Unmarshal(data, &req) // no body = everything
		return event{removed: true, stream: token[len(token)-1], subject: cmp.Or(req.Filter, ">")}, true
	}
	return e, false
}

func headerOf(header, name string) string {
	for line := range strings.SplitSeq(header, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// withoutPayload are the verbs of NATS that consist of one line.
var withoutPayload = []string{"INFO", "CONNECT", "SUB", "UNSUB", "PING", "PONG", "+OK", "-ERR"}

// eachMessage reads one direction of a connection. The end may be missing, and behind the
// offset certain it may be anything. end is the offset behind the message.
func eachMessage(b []byte, certain int, plain, withHeader string, visit func(subject, reply string, header, data []byte, end int)) error {
	wrong := func(end int, format string, args ...any) error {
		if end > certain {
			return nil
		}
		return fmt.Errorf("not the protocol of NATS: "+format, args...)
	}
	for at := 0; at < len(b); {
		n := bytes.Index(b[at:], []byte("\r\n"))
		if n < 0 {
			return nil
		}
		line := string(b[at : at+n])
		at += n + 2
		field := strings.Fields(line)
		if len(field) == 0 {
			continue
		}
		verb := strings.ToUpper(field[0])
		if slices.Contains(withoutPayload, verb) {
			continue
		}
		if verb != plain && verb != withHeader {
			return wrong(at, "%.100q", line)
		}
		numbers := 1
		if verb == withHeader {
			numbers = 2
		}
		size, err := strconv.Atoi(field[len(field)-1])
		headerSize := 0
		if err == nil && numbers == 2 {
			headerSize, err = strconv.Atoi(field[len(field)-2])
		}
		if err != nil || headerSize > size {
			return wrong(at, "%.100q", line)
		}
		if at+size+2 > len(b) {
			return nil
		}
		subjects := field[1 : len(field)-numbers]
		if plain == "MSG" {
			subjects = slices.Delete(slices.Clone(subjects), 1, 2) // the subscription's number
		}
		if string(b[at+size:at+size+2]) != "\r\n" {
			return wrong(at+size+2, "%.100q has not %d bytes", line, size)
		}
		reply := ""
		if len(subjects) > 1 {
			reply = subjects[1]
		}
		end := at + size + 2
		visit(subjects[0], reply, b[at:at+headerSize], b[at+headerSize:at+size], end)
		at = end
	}
	return nil
}
