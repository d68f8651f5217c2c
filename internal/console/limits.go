package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// bodyTime is how long a form may take to arrive. An upload may take longer, while it
	// moves.
	bodyTime = 15 * time.Second
	// maxConns bounds the connections of one address, maxAtOnce the requests that one
	// login, or one address without a login, has under way.
	maxConns  = 200
	maxAtOnce = 100
)

// byParty lists what each party has, the oldest first.
type byParty[T comparable] map[string][]T

func (p byParty[T]) remove(who string, one T) {
	if p[who] = slices.DeleteFunc(p[who], func(other T) bool { return other == one }); len(p[who]) == 0 {
		delete(p, who)
	}
}

// connLimiter is a listener that bounds the connections of each address. One more closes the
// oldest: first those on which nobody is logged in, then those without a request. So whoever holds connections open
// without end keeps nobody else of the address out. The named proxies have no bound,
// because everybody comes from there.
type connLimiter struct {
	net.Listener
	unbounded func(netip.Addr) bool

	mu    sync.Mutex
	conns byParty[*conn]
}

// conn is a connection that a connLimiter counts.
type conn struct {
	net.Conn
	limiter *connLimiter
	from    string

	loggedIn, busy bool // they belong to limiter.mu
}

// Accept implements net.Listener.
func (c *connLimiter) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, err := netip.ParseAddrPort(accepted.RemoteAddr().String())
	if err != nil || c.unbounded(from.Addr().Unmap().WithZone("")) {
		return accepted, nil //nolint:nilerr // an address that cannot be read cannot be counted
	}
	one := &conn{Conn: accepted, limiter: c, from: network(from.Addr().Unmap().WithZone("").String())}
	if old := c.add(one); old != nil {
		_ = old.Close()
	}
	return one, nil
}

// add counts a connection. It returns the one that makes room for it; nil = none needs to.
func (c *connLimiter) add(one *conn) (old *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := c.conns[one.from]; len(all) >= maxConns {
		old = slices.MinFunc(all, func(a, b *conn) int { return a.priority() - b.priority() })
		c.conns.remove(one.from, old)
	}
	c.conns[one.from] = append(c.conns[one.from], one)
	return old
}

// priority says how much somebody loses if the connection is closed.
func (c *conn) priority() int {
	switch {
	case !c.loggedIn:
		return 0
	case !c.busy:
		return 1
	default:
		return 2
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.conns.remove(c.from, c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// connKey is the context key of a request's connection.
type connKey struct{}

// remember is http.Server.ConnContext: it lets a request find its connection.
func (c *connLimiter) remember(ctx context.Context, nc net.Conn) context.Context {
	if wrapped, ok := nc.(interface{ NetConn() net.Conn }); ok { // TLS
		nc = wrapped.NetConn()
	}
	if one, ok := nc.(*conn); ok {
		return context.WithValue(ctx, connKey{}, one)
	}
	return ctx
}

// serves notes whether a request's connection is busy with it, and whether somebody is
// logged in on it.
func serves(ctx context.Context, loggedIn, busy bool) {
	if one, ok := ctx.Value(connKey{}).(*conn); ok {
		one.limiter.mu.Lock()
		one.loggedIn, one.busy = loggedIn, busy
		one.limiter.mu.Unlock()
	}
}

// requestLimiter bounds the requests under way of each party. One more ends the oldest whose form
// has not arrived yet, so that slow forms keep nobody out; without such one it is refused.
type requestLimiter struct {
	mu sync.Mutex
	by byParty[*request]
}

// request is one that is under way.
type request struct {
	cut func() // ends a form that is still arriving; nil = there is none
}

// enter counts one more request. cut ends its form; nil = it has none, or it has arrived.
// It returns nil if the party has as many as may be.
func (a *requestLimiter) enter(who string, cut func()) *request {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = make(byParty[*request])
	}
	if all := a.by[who]; len(all) >= maxAtOnce {
		slow := slices.IndexFunc(all, func(r *request) bool { return r.cut != nil })
		if slow < 0 {
			return nil
		}
		all[slow].cut()
		a.by.remove(who, all[slow])
	}
	r := &request{cut}
	a.by[who] = append(a.by[who], r)
	return r
}

// arrived notes that a request's form is there.
func (a *requestLimiter) arrived(r *request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.cut = nil
}

func (a *requestLimiter) leave(who string, r *request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by.remove(who, r)
}

// bounded bounds what one party can take of the console: requests at once, and the time
// and size of a form. Only an upload sets other bounds for its body.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, loggedIn := "from "+network(s.client(r)), false
		if c, err := r.Cookie(s.cookieName(r)); err == nil && s.sessions.find(c.Value) != nil {
			who, loggedIn = "login "+c.Value, true
		}
		serves(r.Context(), loggedIn, true)
		defer serves(r.Context(), loggedIn, false)
		control := http.NewResponseController(w)
		var cut func()
		if r.ContentLength != 0 && r.URL.Path != "/upload" {
			cut = func() { _ = control.SetReadDeadline(time.Now()) }
		}
		one := s.atOnce.enter(who, cut)
		if one == nil {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "Too many requests of yours are under way at the console. Close pages that you do not need, and try again.", http.StatusTooManyRequests)
			return
		}
		defer s.atOnce.leave(who, one)
		if cut != nil {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				w.Header().Set("Connection", "close")
				s.refuse(w, r, http.StatusRequestTimeout, "The form did not arrive in time, so nothing was done.", "Look at your connection, and send it again.")
				return
			}
			if _, large := errors.AsType[*http.MaxBytesError](err); err != nil && !large {
				err = &problem{status: http.StatusBadRequest, what: "The form broke off, so nothing was done.", todo: "Send it again.", cause: err}
			}
			if err != nil {
				(&visit{Request: r, w: w, s: s}).fail(err)
				return
			}
			s.atOnce.arrived(one)
			_ = control.SetReadDeadline(time.Time{})
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}
