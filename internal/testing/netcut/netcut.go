// Package netcut is for tests: it stands between a NATS client and its server,
// and cuts the connection at a message of the test's choice, before the server
// gets it or before the client hears of it. To the server that is a process
// that was killed there; to the client, a confirmation that never came.
package netcut

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Cut says what happens to a published message.
type Cut uint8

// The cuts.
const (
	// Pass lets it through.
	Pass Cut = iota
	// Before drops it and the connection.
	Before
	// After lets the server have it, and drops the connection before its answer
	// can arrive.
	After
	// Lose drops the message and leaves the connection alone: nobody answers.
	Lose
)

// errCut is what the client's reads and writes get.
var errCut = errors.New("netcut: the connection was cut")

// Dialer is a nats.CustomDialer.
type Dialer struct {
	// Decide is asked about every message that the client publishes.
	Decide func(subject string, payload []byte) Cut
	// Stay keeps the client from coming back after a cut: it is dead.
	Stay bool

	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // closed by Thaw
	conns  map[*conn]struct{}
}

// Dial implements nats.CustomDialer.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	dead := d.dead
	d.mu.Unlock()
	if dead {
		return nil, errCut
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	wrapped := &conn{Conn: c, dialer: d, drained: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		d.conns = make(map[*conn]struct{})
	}
	d.conns[wrapped] = struct{}{}
	return wrapped, nil
}

// Kill cuts every connection for good.
func (d *Dialer) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for c := range d.conns {
		_ = c.Conn.Close()
	}
}

// Break cuts every connection; the client may come back.
func (d *Dialer) Break() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		_ = c.Conn.Close()
		delete(d.conns, c)
	}
}

// Freeze holds up everything in both directions, as if the process had been
// stopped, until Thaw.
func (d *Dialer) Freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen == nil {
		d.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (d *Dialer) Thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen != nil {
		close(d.frozen)
		d.frozen = nil
	}
}

func (d *Dialer) wait() {
	d.mu.Lock()
	frozen := d.frozen
	d.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (d *Dialer) cut() {
	if d.Stay {
		d.Kill()
		return
	}
	d.Break()
}

// conn parses what the client writes.
type conn struct {
	net.Conn
	dialer *Dialer
	rest   []byte

	gone    atomic.Bool
	drained chan struct{} // closed when nothing more comes from the server
	once    sync.Once
}

// Write passes on whole commands, and asks about each message.
func (c *conn) Write(p []byte) (int, error) {
	c.dialer.wait()
	c.rest = append(c.rest, p...)
	for {
		size, subject, payload := command(c.rest)
		if size == 0 {
			return len(p), nil
		}
		out := c.rest[:size]
		verdict := Pass
		if subject != "" && c.dialer.Decide != nil {
			verdict = c.dialer.Decide(subject, payload)
		}
		if verdict == Before {
			c.dialer.cut()
			return 0, errCut
		}
		if verdict == After {
			return 0, c.lastWords(out)
		}
		if verdict != Lose {
			if _, err := c.Conn.Write(out); err != nil {
				return 0, err
			}
		}
		c.rest = c.rest[size:]
	}
}

// lastWords delivers a command for certain: half a close lets the server read
// all of it, and what it answers is thrown away until it closes, too.
func (c *conn) lastWords(out []byte) error {
	c.gone.Store(true)
	if _, err := c.Conn.Write(out); err != nil {
		return err
	}
	c.dialer.mu.Lock()
	c.dialer.dead = c.dialer.dead || c.dialer.Stay
	delete(c.dialer.conns, c)
	c.dialer.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Now().Add(patience))
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	<-c.drained
	return errCut
}

// patience bounds the wait for the server's end of the connection.
const patience = 2 * time.Second

// Read gives what the server sends, and nothing after the cut.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		c.dialer.wait()
		if err != nil {
			c.once.Do(func() { close(c.drained) })
		}
		if err != nil || !c.gone.Load() {
			return n, err
		}
	}
}

// command finds the first whole command: its size (0: there is none yet), and
// for a published message its subject and payload without headers.
func command(buf []byte) (size int, subject string, payload []byte) {
	end := bytes.Index(buf, []byte("\r\n"))
	if end < 0 {
		return 0, "", nil
	}
	fields := bytes.Fields(buf[:end])
	if len(fields) < 3 {
		return end + 2, "", nil
	}
	verb := string(bytes.ToUpper(fields[0]))
	if verb != "PUB" && verb != "HPUB" {
		return end + 2, "", nil
	}
	total, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil {
		return end + 2, "", nil
	}
	head := 0
	if verb == "HPUB" {
		head, _ = strconv.Atoi(string(fields[len(fields)-2]))
	}
	size = end + 2 + total + 2
	if len(buf) < size {
		return 0, "", nil
	}
	return size, string(fields[1]), buf[end+2+head : end+2+total]
}
