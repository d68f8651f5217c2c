package powercut

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
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
