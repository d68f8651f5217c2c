package console

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"orderpost/internal/platform/endpoint"
)

// policy is the Content-Security-Policy of every answer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard wraps the console's pages: it refuses foreign names and forged requests,
// and sets the headers that keep a browser from doing harm.
func (s *Server) guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusForbidden, "This request came from another website, so nothing was done.", "Open the console itself and try again.")
	}))
	for _, host := range s.cfg.Hosts {
		_ = origins.AddTrustedOrigin("https://" + host) // Validate has checked the name
	}
	protected := s.bounded(origins.Handler(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTime)) // a test's writer has none
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		if s.secure(r) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !s.knownHost(r.Host) {
			// The page is plain text: whoever comes by a foreign name gets nothing of the console.
			http.Error(w, "This console does not answer to the name in your address bar.\nIf it should, add the name to ORDERPOST_CONSOLE_HOSTS.", http.StatusMisdirectedRequest)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// knownHost reports whether people may reach the console under the name. A website
// can make its own name resolve to this machine, and its scripts would then be of
// the same origin as the console (DNS rebinding).
func (s *Server) knownHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if endpoint.Loopback(host) {
		return true
	}
	own, _, _ := net.SplitHostPort(s.cfg.Listen)
	return host == own || slices.ContainsFunc(s.cfg.Hosts, func(name string) bool {
		bare, _, err := net.SplitHostPort(name)
		if err != nil {
			bare = name
		}
		return strings.EqualFold(bare, host)
	})
}

// peer returns the address that the request came from.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// fromProxy reports whether a named proxy sent the request.
func (s *Server) fromProxy(r *http.Request) bool {
	return s.isProxy(peer(r))
}

func (s *Server) isProxy(from netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}

// secure reports whether the person's browser speaks TLS.
func (s *Server) secure(r *http.Request) bool {
	return r.TLS != nil || s.fromProxy(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// client returns the address of the person's machine, for limits and the journal.
func (s *Server) client(r *http.Request) string {
	if s.fromProxy(r) {
		// Each proxy appends the address that it saw. What is before the first one that is no
		// named proxy's may be forged.
		from := peer(r)
		for _, hop := range slices.Backward(strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")) {
			addr, ok := forwarded(hop)
			if !ok {
				break
			}
			if from = addr; !s.isProxy(addr) {
				break
			}
		}
		return from.String()
	}
	return peer(r).String()
}

// forwarded reads one address of X-Forwarded-For. Some proxies write a port behind it.
func forwarded(hop string) (addr netip.Addr, ok bool) {
	hop = strings.TrimSpace(hop)
	addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	if err != nil {
		var with netip.AddrPort
		with, err = netip.ParseAddrPort(hop)
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), err == nil
}

// proxied returns the person whom the proxy names. named is false if the request
// names nobody or did not come from a named proxy.
func (s *Server) proxied(r *http.Request) (p Person, named bool) {
	if s.cfg.UserHeader == "" || !s.fromProxy(r) {
		return p, false
	}
	values := r.Header.Values(s.cfg.UserHeader)
	if len(values) != 1 || strings.TrimSpace(values[0]) == "" || len(values[0]) > 100 {
		return p, false
	}
	p = Person{Name: strings.TrimSpace(values[0]), How: "proxy"}
	if u, found := s.users.find(p.Name); found {
		p.Rights = u.rights
	} else if rights, member := s.groupRights(r); member {
		p.Rights = rights
	} else if s.cfg.ProxyRole != "none" {
		p.Rights, _ = readRole(s.cfg.ProxyRole) // Validate has checked it
	}
	return p, true
}

// groupRights returns all rights of the groups that the proxy names. member is false if none of them has a role.
func (s *Server) groupRights(r *http.Request) (all Rights, member bool) {
	if s.cfg.GroupsHeader == "" {
		return all, false
	}
	for _, value := range r.Header.Values(s.cfg.GroupsHeader) {
		for name := range strings.SplitSeq(value, ",") {
			rights, has := s.groups[strings.TrimSpace(name)]
			member = member || has
			all = Rights{max(all.Role, rights.Role), all.ResubmitUnknown || rights.ResubmitUnknown, all.Approve || rights.Approve}
		}
	}
	return all, member
}
