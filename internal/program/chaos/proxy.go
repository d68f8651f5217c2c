package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// proxy is a TCP proxy on loopback that can do to its connections what a
// network does. Its methods may be called at any time; trouble strikes
// connections that are open as well as those that come.
type proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	trouble trouble
	changed chan struct{} // closed and replaced at every change of trouble
	pairs   map[*pair]struct{}
	closed  bool
	serving sync.WaitGroup
}

// trouble is what is wrong with the network.
type trouble struct {
	// Refuse closes connections as soon as they come.
	Refuse bool
	// HoldUp and HoldDown keep what comes from the client, or from the server;
	// it is passed on once the trouble is over. Both: a black hole. One: a
	// connection that is half open.
	HoldUp, HoldDown bool
	// Short resets new connections when so many bytes have come from the server:
	// amidst the handshake of TLS, or in the first answer; 0: it does not.
	Short int
	// Delay passes every piece of up to 32 KiB on later.
	Delay time.Duration
}

// pair is one client's connection and the one to the server.
type pair struct{ client, server net.Conn }

func (c *pair) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, changed: make(chan struct{}), pairs: make(map[*pair]struct{})}
	p.serving.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set replaces the trouble; the zero one heals.
func (p *proxy) set(t trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = t
	close(p.changed)
	p.changed = make(chan struct{})
}

// cut closes every open connection, with a reset as a rule.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		reset(c.client)
		reset(c.server)
		c.close()
	}
}

// reset has a connection end by a reset when it is closed.
func reset(end net.Conn) {
	if tcp, ok := end.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// close ends everything and waits for it.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.set(trouble{})
	p.cut()
	p.serving.Wait()
}

// now gives the trouble of this moment, and a channel that tells of the next.
func (p *proxy) now() (trouble, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble, p.changed
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of this connection alone
		}
		if t, _ := p.now(); t.Refuse {
			_ = client.Close()
			continue
		}
		p.serving.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &pair{client, server}
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		c.close()
	}
	var both sync.WaitGroup
	t, _ := p.now()
	both.Go(func() { p.pass(server, client, true, 0) })
	both.Go(func() { p.pass(client, server, false, t.Short) })
	both.Wait()
	c.close()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// pass copies one direction, short bytes of it where that is not 0. What was
// read is delivered even if the sender is gone by then, as a network would.
func (p *proxy) pass(to, from net.Conn, up bool, short int) {
	buf := make([]byte, 32<<10)
	for passed := 0; ; {
		n, err := from.Read(buf)
		if passed += n; short > 0 && passed >= short {
			_, _ = to.Write(buf[:n-(passed-short)])
			for _, end := range []net.Conn{to, from} {
				reset(end)
				_ = end.Close()
			}
			return
		}
		if n > 0 {
			p.hold(up)
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			p.hold(up)
			if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
				_ = tcp.CloseWrite()
			} else {
				_ = to.Close()
			}
			return
		}
	}
}

// hold keeps a piece for as long as the trouble demands.
func (p *proxy) hold(up bool) {
	t, _ := p.now()
	if t.Delay > 0 {
		time.Sleep(t.Delay)
	}
	for {
		t, changed := p.now()
		if up && !t.HoldUp || !up && !t.HoldDown {
			return
		}
		<-changed
	}
}
