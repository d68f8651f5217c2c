package queue

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// routes are the connections among the nodes of a cluster. Each pair of nodes
// has its own relay in each direction, so that a test can cut one node off from
// the others while its clients stay connected.
type routes struct {
	relays map[[2]int]*relay
}

func newRoutes(t testing.TB) *routes {
	t.Helper()
	r := &routes{relays: make(map[[2]int]*relay)}
	for from := range clusterSize {
		for to := range clusterSize {
			if from != to {
				r.relays[[2]int{from, to}] = startRelay(t)
			}
		}
	}
	return r
}

// listens tells where a node's route listener is. Nodes choose their ports
// themselves: one that a test chose may be another test's by then.
func (r *routes) listens(node int, addr string) {
	for pair, relay := range r.relays {
		if pair[1] == node {
			relay.lead(addr)
		}
	}
}

// of returns the routes that one node dials.
func (r *routes) of(node int) (urls []*url.URL) {
	for pair, relay := range r.relays {
		if pair[0] == node {
			urls = append(urls, server.RoutesFromStr("nats://"+relay.l.Addr().String())...)
		}
	}
	return urls
}

// isolate cuts a node off from all others.
func (r *routes) isolate(node int) {
	for pair, relay := range r.relays {
		if pair[0] == node || pair[1] == node {
			relay.set(true)
		}
	}
}

// heal lets the nodes connect again.
func (r *routes) heal() {
	for _, relay := range r.relays {
		relay.set(false)
	}
}

// relay passes connections on to target while it is not cut.
type relay struct {
	l net.Listener

	mu     sync.Mutex
	target string // "" = not known yet
	cut    bool
	conns  map[net.Conn]struct{}
}

func startRelay(t testing.TB) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{l: l, conns: make(map[net.Conn]struct{})}
	go r.serve()
	t.Cleanup(func() { _ = l.Close(); r.set(true) })
	return r
}

func (r *relay) serve() {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.leadsTo())
		if err != nil {
			_ = in.Close()
			continue
		}
		if !r.keep(in, out) {
			continue
		}
		for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
			go func() {
				_, _ = io.Copy(to, from)
				r.drop(in, out)
			}()
		}
	}
}

func (r *relay) lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

func (r *relay) leadsTo() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.target
}

func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.cut {
			_ = c.Close()
			continue
		}
		r.conns[c] = struct{}{}
	}
	return !r.cut
}

func (r *relay) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(r.conns, c)
	}
}

func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	if cut {
		for c := range r.conns {
			_ = c.Close()
		}
	}
}
