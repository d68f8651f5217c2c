package powercut

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// event is a promise that left the broker, or a request that ended one.
type event struct {
	// line is that of the trace: where the confirmation left, or had been read.
	line   int
	stream string
	// removed: a client asked the broker to remove the message seq, or everything
	// that filter names. Otherwise the broker confirmed that it stored the message.
	removed bool
	seq     uint64
	subject string // of the message; of a removal: the filter, "" = seq
	data    []byte
	// passing says that the message expires soon.
	passing bool
}

// post is a request to the API to create an order.
type post struct {
	orderNo string
	// sent is the line at which the request left, answered that at which its answer
	// had been read, or its connection was closed.
	sent, answered int
	status         int
	// nth counts the requests for this order_no, from 0.
	nth int
}

// conn is one connection of the traced process.
type conn struct {
	api     bool
	in, out bytes.Buffer
	inAt    []mark
	outAt   []mark
	closed  int
}

// mark says which line of the trace carried the bytes up to an offset.
type mark struct{ end, line int }

func lineOf(marks []mark, offset int) int {
	i, _ := slices.BinarySearchFunc(marks, offset, func(m mark, end int) int { return cmp.Compare(m.end, end) })
	if i == len(marks) {
		return never
	}
	return marks[i].line
}

type wire struct {
	t     *trace
	api   string // the port of the API
	conns []*conn
}

func newWire(t *trace, api string) *wire { return &wire{t: t, api: api} }

// network carries out a call on a descriptor that is no file below the root. A write
// counts from its beginning: its bytes may have left by then. A read counts from its
// return.
func (r *replayer) network(c *call) error {
	fd := c.fd(0)
	if h := r.open[fd]; h != nil {
		if c.name == "read" || c.name == "readv" {
			h.pos += c.ret
		}
		return nil
	}
	switch c.name {
	case "accept4":
		r.conns[int(c.ret)] = r.wire.add(&conn{closed: never})
		return nil
	case "connect":
		if (c.failed == "" || c.failed == "EINPROGRESS") && strings.Contains(strings.Join(c.args, ","), "htons("+r.wire.api+")") {
			r.conns[fd] = r.wire.add(&conn{api: true, closed: never})
		}
		return nil
	}
	conn := r.conns[fd]
	if conn == nil {
		return nil
	}
	reading := strings.HasPrefix(c.name, "read") || c.name == "recvfrom"
	if reading && (c.exit == never || strings.Contains(c.arg(3), "MSG_PEEK")) {
		return nil
	}
	data, err := c.bytes(1)
	if err != nil {
		return err
	}
	if reading {
		conn.in.Write(data)
		conn.inAt = append(conn.inAt, mark{conn.in.Len(), c.exit})
		return nil
	}
	if c.name == "sendmsg" {
		return fmt.Errorf("not modelled")
	}
	conn.out.Write(data)
	conn.outAt = append(conn.outAt, mark{conn.out.Len(), c.enter})
	return nil
}

func (w *wire) add(c *conn) *conn {
	w.conns = append(w.conns, c)
	return c
}

// finish reads what the connections carried.
func (w *wire) finish() error {
	for _, c := range w.conns {
		var err error
		switch {
		case c.api:
			err = w.readPosts(c)
		case bytes.HasPrefix(c.out.Bytes(), []byte("INFO ")):
			err = w.readNATS(c)
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(w.t.events, func(a, b event) int { return cmp.Compare(a.line, b.line) })
	slices.SortStableFunc(w.t.posts, func(a, b post) int { return cmp.Compare(a.sent, b.sent) })
	count := make(map[string]int)
	for i := range w.t.posts {
		p := &w.t.posts[i]
		p.nth = count[p.orderNo]
		count[p.orderNo]++
	}
	return nil
}

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
	err := eachMessage(c.in.Bytes(), "PUB", "HPUB", func(subject, reply string, header, data []byte, end int) {
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
	return eachMessage(c.out.Bytes(), "MSG", "HMSG", func(subject, _ string, _, data []byte, end int) {
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

// eachMessage reads one direction of a connection. The end may be missing. end is the
// offset behind the message.
func eachMessage(b []byte, plain, withHeader string, visit func(subject, reply string, header, data []byte, end int)) error {
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
			return fmt.Errorf("not the protocol of NATS: %.100q", line)
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
			return fmt.Errorf("not the protocol of NATS: %.100q", line)
		}
		if at+size+2 > len(b) {
			return nil
		}
		subjects := field[1 : len(field)-numbers]
		if plain == "MSG" {
			subjects = slices.Delete(slices.Clone(subjects), 1, 2) // the subscription's number
		}
		if string(b[at+size:at+size+2]) != "\r\n" {
			return fmt.Errorf("not the protocol of NATS: %.100q has not %d bytes", line, size)
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

// readPosts finds the requests to create orders, and their answers.
func (w *wire) readPosts(c *conn) error {
	out, in := &counted{r: bytes.NewReader(c.out.Bytes())}, &counted{r: bytes.NewReader(c.in.Bytes())}
	requests, answers := bufio.NewReader(out), bufio.NewReader(in)
	for {
		req, err := http.ReadRequest(requests)
		if err != nil {
			return nil // the end, or a request that was cut off
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil
		}
		// Where the API drops an answer, the end of the connection says that it is through.
		p := post{sent: lineOf(c.outAt, out.n-requests.Buffered()), answered: c.closed}
		if resp, err := http.ReadResponse(answers, req); err == nil {
			if _, err = io.Copy(io.Discard, resp.Body); err == nil {
				p.status, p.answered = resp.StatusCode, lineOf(c.inAt, in.n-answers.Buffered())
			}
		}
		if req.Method != http.MethodPost {
			continue
		}
		var order struct {
			OrderNo string `json:"order_no"`
		}
		if err := json.Unmarshal(body, &order); err != nil || order.OrderNo == "" {
			return fmt.Errorf("a request to %s without an order_no: %.80q", req.URL, body)
		}
		p.orderNo = order.OrderNo
		w.t.posts = append(w.t.posts, p)
	}
}

// counted counts the bytes that were read.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
