package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"orderpost/docs"
	"orderpost/internal/order"
	"orderpost/internal/platform/endpoint"
)

// route is one address and method.
type route struct {
	method string
	name   string // the label of metrics
	need   Scope
	// takes names the parameters, of which each may come once. nil = serve looks at them.
	takes []string
	// waits says that a request with these parameters may only wait: a long poll or a feed.
	// nil = never.
	waits func(url.Values) bool
	serve func(*call) error
}

// call is one request of a client.
type call struct {
	*http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	client  *client
	need    Scope // what the route asks of the client
	// certified is when the certificate ends that the client came with; zero = it came with a token.
	certified time.Time
	s         *Server
	query     url.Values
	read      bool            // the body was read to its end
	within    context.Context // has the span of a request that brings orders; nil = no traces
	release   func()
}

// routes lists what the door does, by path.
func (s *Server) routes() map[string][]route {
	return map[string][]route{
		"/v1/orders": { // order_no is a parameter, because proxies decode and shorten paths such as A%2F1 and ..
			{method: http.MethodPost, name: "submit", need: Submit, takes: []string{}, serve: (*call).submit},
			{method: http.MethodGet, name: "order", need: Read, takes: []string{"order_no", "submission", "wait"}, waits: hasWait, serve: (*call).order},
			{method: http.MethodDelete, name: "cancel", need: Cancel, takes: []string{"order_no", "submission"}, serve: (*call).cancel}},
		"/v1/imports": {{method: http.MethodPost, name: "import", need: Submit, serve: (*call).takeFile}},
		"/v1/imports/{id}": {
			{method: http.MethodGet, name: "import-state", need: Read, serve: (*call).importState},
			{method: http.MethodDelete, name: "import-cancel", need: Cancel, serve: (*call).cancelImport}},
		"/v1/imports/{id}/results": {{method: http.MethodGet, name: "import-results", need: Read, serve: (*call).importResults}},
		"/v1/outcomes": {{method: http.MethodGet, name: "outcomes", need: Read, takes: []string{"after", "limit", "wait"},
			waits: func(url.Values) bool { return true }, serve: (*call).outcomes}},
	}
}

const otherRoute = "other"

// hasWait reports whether a request asks to wait.
func hasWait(parameters url.Values) bool { return parameters.Has("wait") }

// handler returns what the door answers.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for path, all := range s.routes() {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, all) })
	}
	mux.HandleFunc("/openapi.yaml", s.open("application/yaml", func() (int, []byte) { return http.StatusOK, docs.OpenAPI }))
	mux.HandleFunc("/livez", s.open("text/plain; charset=utf-8", func() (int, []byte) { return http.StatusOK, []byte("ok\n") }))
	mux.HandleFunc("/readyz", s.open("application/json", s.readiness))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, problemOf(notFound, "path", fmt.Sprintf("%.100q", r.URL.Path), "see /openapi.yaml for what there is"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if beyondLimit(r.Context()) {
			w.Header().Set("Connection", "close")
			s.refuse(w, r, problemOf(tooManyConnections, "", fmt.Sprintf("%d connections are open", s.connections.most), "keep connections and reuse them, and try again").retry(retryConnections))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// open serves what needs no client.
func (s *Server) open(media string, answer func() (int, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.refuse(w, r, notAllowed(r, "GET, HEAD"))
			return
		}
		status, body := answer()
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "no-store")
		c := &call{Request: r, w: w, control: http.NewResponseController(w), s: s}
		c.limitRest() // net/http reads the body that nobody asked for before it answers
		c.deadline()
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client is gone
		c.discardRest()
	}
}

// readiness is the answer of /readyz.
func (s *Server) readiness() (int, []byte) {
	reasons := []string{}
	if s.drain.Err() != nil {
		reasons = append(reasons, "draining: the door is being closed")
	}
	if why := s.Queue.Conn.Unusable(); why != "" {
		reasons = append(reasons, why)
	}
	status := http.StatusOK
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
	}
	return status, jsonLine(map[string]any{"ready": len(reasons) == 0, "reasons": reasons})
}

func notAllowed(r *http.Request, allow string) *problem {
	p := problemOf(badMethod, "method", fmt.Sprintf("%.20q", r.Method), "use "+allow)
	p.allow = allow
	return p
}

// dispatch serves a request of a path that has routes.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, all []route) {
	var allow []string
	for _, rt := range all {
		if rt.method == r.Method {
			s.serve(w, r, rt)
			return
		}
		allow = append(allow, rt.method)
	}
	s.refuse(w, r, notAllowed(r, strings.Join(allow, ", ")))
}

// refuse answers a request that reached no route.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	s.Metrics.Requested(otherRoute, p.Status, 0)
	c := &call{Request: r, w: w, control: http.NewResponseController(w), s: s}
	c.refuse(p)
	c.discardRest()
}

// serve serves a request of a route, and counts it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	began := time.Now()
	seen := &answered{ResponseWriter: w}
	c := &call{Request: r, w: seen, control: http.NewResponseController(w), s: s, release: func() {}}
	err := c.safely(func() error { return c.admitted(rt) })
	if p := c.revoked(); p != nil && errors.Is(err, context.Canceled) { // that is what ended it
		err = p
	}
	s.underWay.Delete(c)
	c.release()
	var p *problem
	if err != nil && !errors.As(err, &p) {
		p = internalProblem(err)
	}
	if p != nil {
		c.fail(rt, p, seen.status == 0)
	}
	s.Metrics.Requested(rt.name, seen.status, time.Since(began))
	if p != nil && p.cut && seen.status != p.Status {
		panic(http.ErrAbortHandler) // an answer that breaks off must not look whole
	}
	c.discardRest()
}

// safely calls serve. A panic is an error of this request alone.
func (c *call) safely(serve func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := internalProblem(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			p.cut, err = true, p
		}
	}()
	return serve()
}

// refuse answers with a problem. A body of unknown length may have no end, so its client
// is told at once and loses its connection.
func (c *call) refuse(p *problem) {
	if c.ContentLength < 0 && !c.read {
		c.w.Header().Set("Connection", "close")
	}
	c.deadline()
	p.write(c.w)
}

// discardRest reads on for a moment if the client still sends a request that has its answer. A
// client that sends all of it before it reads would else lose the answer with its
// connection. Whatever the client does, the connection is closed once it has sent
// restBytes more, or after restTimeout.
func (c *call) discardRest() {
	c.limitRest()
	if c.read || c.Body == http.NoBody {
		return
	}
	if c.control.Flush() == nil { // net/http reads a short rest itself, and keeps the connection
		_, _ = io.CopyN(io.Discard, c.Body, restBytes)
	}
}

// limitRest bounds how long the rest of a request may take.
func (c *call) limitRest() {
	_ = c.control.SetReadDeadline(time.Now().Add(min(restTimeout, c.s.bodyTimeout)))
}

// fail answers with a problem, unless an answer has begun, and logs what is the door's or
// the broker's fault.
func (c *call) fail(rt route, p *problem, answer bool) {
	if p.Status >= http.StatusInternalServerError && c.Context().Err() == nil {
		c.s.Log.Warn().Err(p.cause).Str("route", rt.name).Int("status", p.Status).Str("problem", p.Title).Msg("HTTP door: a request failed")
	}
	if answer {
		c.refuse(p)
	}
}

// deadline bounds the next write of the answer.
func (c *call) deadline() { _ = c.control.SetWriteDeadline(time.Now().Add(c.s.writeTimeout)) }

// admitted serves the request if its client is known, may do this, and has room for it.
func (c *call) admitted(rt route) error {
	if c.s.drain.Err() != nil {
		c.w.Header().Set("Connection", "close")
		return problemOf(draining, "", "", "send it to another door, or again in a moment").retry(retryDraining)
	}
	var p *problem
	if c.client, p = c.s.who(c.Request); p != nil {
		return p
	}
	if !c.client.may(rt.need) {
		return lacksScope(c.client, rt.need)
	}
	c.need = rt.need
	if cert := certificateOf(c.Request); cert != nil && c.Header.Get("Authorization") == "" {
		c.certified = cert.NotAfter
	}
	if after := c.client.limits.admit(); after > 0 {
		return problemOf(tooMany, "client "+c.client.name, "its rate is used up", "send fewer requests a second, or many orders in one request ("+mediaLines+")").retry(after)
	}
	if c.query, p = parameters(c.URL.RawQuery, rt.takes); p != nil {
		return p
	}
	leave := c.client.limits.enter(rt.waits != nil && rt.waits(c.query))
	if leave == nil {
		return problemOf(tooMany, "client "+c.client.name, "it has as many requests under way as it may", "wait for their answers").retry(retrySlots)
	}
	closed := c.s.Metrics.Opened(rt.name)
	c.release = func() { closed(); leave() }
	c.watched()
	if rt.method != http.MethodPost { // it may wait
		_ = c.control.SetReadDeadline(time.Time{})
		if c.Body != http.NoBody { // nobody asked for one, and net/http would wait for it before a long answer
			c.w.Header().Set("Connection", "close")
		}
	}
	return rt.serve(c)
}

func lacksScope(c *client, s Scope) *problem {
	return problemOf(forbidden, "client "+c.name, "it lacks the scope "+string(s), "ask whoever keeps the file of clients")
}

// parameters reads the parameters of a request. It refuses what it cannot read, since without it the
// request would be about something else. takes names the known ones, each at most once; nil = any.
func parameters(raw string, takes []string) (url.Values, *problem) {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problemOf(badRequest, "parameters", err.Error(), "percent-encode them, such as ; as %3B and % as %25")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		where := "parameter " + order.Clip(name, 40)
		switch n := len(given[name]); {
		case takes == nil:
		case !slices.Contains(takes, name):
			do := "use those of /openapi.yaml: " + strings.Join(takes, ", ")
			if len(takes) == 0 {
				do = "leave it out: what is said of an order is in its headers, such as " + headerDeadline
			}
			return nil, problemOf(badRequest, where, "there is none of this name", do)
		case n > 1:
			return nil, problemOf(badRequest, where, fmt.Sprintf("it is there %d times", n), "give it once")
		case given[name][0] == "": // a client's empty variable must not mean another order
			return nil, problemOf(badRequest, where, "it is empty", "give it a value, or leave it out")
		}
	}
	return given, nil
}

// who returns the client of a request.
func (s *Server) who(r *http.Request) (*client, *problem) {
	if s.clients == nil {
		// A page in a browser of this machine may resolve its own name to 127.0.0.1.
		if host := hostOf(r.Host); !endpoint.Loopback(host) {
			return nil, problemOf(misdirected, "header Host", fmt.Sprintf("%.100q", host), "without a file of clients (ORDERPOST_GATEWAY_CLIENTS) the door answers to localhost and loopback addresses alone")
		}
		return s.local, nil
	}
	if cert := certificateOf(r); cert != nil && r.Header.Get("Authorization") == "" {
		if c := s.clients.findCertified(cert); c != nil && time.Now().Before(cert.NotAfter) { // it may have ended since the handshake
			return c, nil
		}
		return nil, problemOf(unauthorized, "certificate", fmt.Sprintf("%.300q is no client's, or is over", strings.Join(namesOf(cert), ", ")), "name one of these in the file of clients, or send a token")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, problemOf(unauthorized, "header Authorization", "there is no bearer token", "send Authorization: Bearer TOKEN")
	}
	if c := s.clients.find(strings.TrimSpace(token)); c != nil {
		return c, nil
	}
	return nil, problemOf(unauthorized, "header Authorization", "the token is no client's", "compare it with the file of clients; its hash must be there")
}

// certificateOf returns the client's certificate, which one of the door's authorities has
// signed; nil = it has none.
func certificateOf(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.Trim(host, "[]")
}

// answered notes the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// until returns a context that ends with the request, with the door, and after a while.
func (c *call) until(wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.Context(), wait)
	stop := context.AfterFunc(c.s.drain, cancel)
	return ctx, func() { stop(); cancel() }
}
