package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/queue"
)

// visit is one request of one person.
type visit struct {
	*http.Request
	w http.ResponseWriter
	s *Server
	// session is nil before the login.
	session *session
	// status is the answer's; 0 = 200.
	status int
	// unwritten says what the journal lacks of the act that this request carried out.
	unwritten string
	// live says that the page refreshes its part "live" by itself.
	live bool
}

// person returns who asks; the zero Person before the login.
func (v *visit) person() Person {
	if v.session == nil {
		return Person{}
	}
	return v.session.Person
}

// may reports whether the person has the role.
func (v *visit) may(r Role) bool { return v.person().Role >= r }

// queue returns the broker's streams, with the rights that the person may use.
func (v *visit) queue() *queue.Queue {
	if v.may(Importer) {
		return v.s.queue
	}
	return v.s.viewers
}

// brief returns the request's context for reads that a page waits for. The queue
// itself waits for a broker that is away, longer than a person does.
func (v *visit) brief() context.Context { return v.within(readTimeout) }

// within returns the request's context, which ends after a while at the latest.
func (v *visit) within(most time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(v.Context(), most)
	_ = cancel // net/http ends the request's context, and this one with it
	return ctx
}

// refreshes reports whether the page asked for itself, and no person did.
func (v *visit) refreshes() bool { return v.Header.Get("HX-Request") == "true" }

// query returns a parameter of the URL.
func (v *visit) query(name string) string { return v.URL.Query().Get(name) }

// given returns a field of a form, or the parameter of the URL that leads to the form.
func (v *visit) given(name string) string {
	if v.Method == http.MethodPost {
		return v.field(name)
	}
	return v.query(name)
}

// field returns a field of a form, without spaces around it.
func (v *visit) field(name string) string { return strings.TrimSpace(lines(v.PostFormValue(name))) }

// lines ends each line of a text with LF. A browser sends CR LF for each end of a line in a
// form, also in a hidden field (HTML, "append an entry").
func lines(text string) string { return lineEnds.Replace(text) }

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// done sends the person to another page, which shows the sentence.
func (v *visit) done(to, sentence string) error {
	if v.session != nil && sentence+v.unwritten != "" {
		v.session.flash.Store(&flash{Text: strings.TrimSpace(sentence + " " + v.unwritten), Bad: v.unwritten != ""})
	}
	http.Redirect(v.w, v.Request, to, http.StatusSeeOther)
	return nil
}

// doneUnless is done, unless what was to be done failed.
func (v *visit) doneUnless(err error, to, sentence string) error {
	if err != nil {
		return err
	}
	return v.done(to, sentence)
}

// problem is an error that a person can do something about. Its text is a page of
// its own.
type problem struct {
	status int
	// what is a sentence that says what is wrong, todo one that says what to do.
	what, todo string
	// cause goes to the log.
	cause error
}

func (p *problem) Error() string { return p.what }
func (p *problem) Unwrap() error { return p.cause }

func badRequest(what, todo string) error {
	return &problem{status: http.StatusBadRequest, what: what, todo: todo}
}

func notFound(what, todo string) error {
	return &problem{status: http.StatusNotFound, what: what, todo: todo}
}

// handler returns the route's handler: it finds the person, refuses whoever lacks
// the role, and shows errors as sentences.
func (s *Server) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Request: r, w: w, s: s, session: s.login(w, r)}
		switch {
		case rt.need > Anybody && v.session == nil:
			v.askWho()
			return
		case !v.may(rt.need):
			v.fail(&problem{status: http.StatusForbidden,
				what: rt.does + " needs the role " + rt.need.String() + ", and yours is " + orNone(v.person().Role) + ".",
				todo: "Ask whoever runs this console for it (ORDERPOST_CONSOLE_USERS)."})
			return
		}
		if v.session != nil && !v.refreshes() {
			s.sessions.touch(v.session)
		}
		serve := rt.serve
		if strings.HasPrefix(rt.pattern, "POST ") && rt.free == "" && v.seen() == "" {
			serve = unseen
		}
		err := serve(v)
		if asked, ok := errors.AsType[*approval.Asked](err); ok {
			s.watch.forget()
			err = v.done(asked.Address(), "You asked for it. Nothing was done yet: another login must approve it.")
		}
		if err != nil {
			v.fail(err)
		}
	})
}

func orNone(r Role) string {
	if r == Anybody {
		return "none"
	}
	return r.String()
}

// askWho answers a request without a login. A page that refreshes itself is left,
// so that it does not show old figures as if they were new.
func (v *visit) askWho() {
	back := v.URL.RequestURI()
	switch {
	case v.Header.Get("Sec-Fetch-Site") == "cross-site" && v.Method == http.MethodGet && v.Header.Get("Sec-Fetch-Mode") == "navigate":
		// A link in a mail or a chat led here. The browser sends a SameSite=Strict
		// cookie only with a request that this page makes itself.
		_ = v.render("arrive", "One moment", back)
	case v.refreshes():
		v.w.Header().Set("HX-Redirect", "/login?back="+url.QueryEscape(v.here()))
		v.w.WriteHeader(http.StatusUnauthorized)
	case v.Method != http.MethodGet:
		v.fail(&problem{status: http.StatusUnauthorized, what: "Your login has ended, so nothing was done.", todo: "Log in, and send the form again."})
	default:
		http.Redirect(v.w, v.Request, "/login?back="+url.QueryEscape(back), http.StatusSeeOther)
	}
}

// here returns the address of the page in the browser's address bar.
func (v *visit) here() string {
	if page, err := url.Parse(v.Header.Get("HX-Current-URL")); err == nil && v.refreshes() && page.Path != "" {
		return page.RequestURI()
	}
	return v.URL.RequestURI()
}

// local returns a path of the console, whatever a link says.
func local(back string) string {
	u, err := url.Parse(back)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n\t") || strings.HasPrefix(u.Path, "/login") {
		return "/"
	}
	return back
}

// fail shows an error as a page of sentences.
func (v *visit) fail(err error) {
	p := &problem{status: http.StatusInternalServerError, what: "The console could not do that.", todo: "Try again. The console's log says more.", cause: err}
	var limit *http.MaxBytesError
	switch {
	case errors.As(err, &p):
	case errors.As(err, &limit):
		p = &problem{status: http.StatusRequestEntityTooLarge, what: "What you sent is larger than the console takes.", todo: "Send less at once."}
	case v.Context().Err() != nil:
		return // nobody is there any more
	case away(err) || !v.queue().Conn.Connected():
		p = &problem{status: http.StatusServiceUnavailable, what: "The broker is out of reach, so the console cannot say or do anything about orders now.",
			todo: "Try again in a moment. If it stays away, look at the machine that runs it; docs/runbook.md has the steps.", cause: err}
	}
	if p.status >= http.StatusInternalServerError {
		v.s.log.Error().Err(p.cause).Str("path", v.URL.Path).Msg("a page of the console failed")
	}
	if v.refreshes() {
		v.w.Header().Set("HX-Reswap", "none") // console.js says that what is shown may be old
	}
	again := "" // the address of a page to look at
	if p.status == http.StatusConflict && v.Method == http.MethodPost && v.session != nil {
		again = v.pageOf()
	}
	v.status = p.status
	_ = v.render("problem", "That did not work", map[string]string{"What": p.what, "Todo": p.todo, "Again": again})
}

// refuse shows a problem for a request that never got to a route.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, what, todo string) {
	v := &visit{Request: r, w: w, s: s}
	v.fail(&problem{status: status, what: what, todo: todo})
}
