package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// proxy is a TCP proxy on loopback that can disturb its connections as a network does.
// Its methods are safe for concurrent use. Trouble affects open and new connections.
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

// trouble says how the network is disturbed.
type trouble struct {
	// Refuse closes connections as soon as they are accepted.
	Refuse bool
	// HoldUp and HoldDown hold back data from the client or from the server until the
	// trouble is over. With both the network is a black hole, with one of them the
	// connection is half open.
	HoldUp, HoldDown bool
	// Short resets new connections after this number of bytes from the server, within
	// the TLS handshake or the first answer; 0 = never.
	Short int
	// Delay delays every piece of up to 32 KiB.
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

// set replaces the trouble. The zero value heals.
func (p *proxy) set(t trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = t
	close(p.changed)
	p.changed = make(chan struct{})
}

// cut closes every open connection, usually with a reset.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		reset(c.client)
		reset(c.server)
		c.close()
	}
}

// reset makes a connection end with a reset when it is closed.
func reset(end net.Conn) {
	if tcp, ok := end.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// close stops the proxy and waits for its goroutines.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.set(trouble{})
	p.cut()
	p.serving.Wait()
}

// now returns the present trouble, and a channel that is closed at the next change.
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
			continue // the failure concerns only this connection
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

// pass copies one direction, or only short bytes of it unless short is 0. Like a
// network, it delivers what it has read even if the sender is gone.
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

// hold waits as long as the trouble holds a piece back.
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
