package notify

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderpost/internal/order"
	"orderpost/internal/platform/secret"
	"orderpost/internal/settle"
)

// TestWindow: the position never passes an open event, and reaches the end once none is open.
func TestWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, open, seq, last := newWindow(Position{mark: mark{Seq: 7}}), []*place(nil), uint64(7), uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch n := len(open); {
			case n > 0 && rapid.Bool().Draw(t, "close"):
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				w.close(open[i])
				w.close(open[i]) // twice is once
				open = append(open[:i:i], open[i+1:]...)
			case rapid.Bool().Draw(t, "event"):
				seq += rapid.Uint64Range(1, 3).Draw(t, "gap")
				open = append(open, w.add(seq, time.Unix(int64(seq), 0)))
			default:
				seq++
				w.pass(seq, time.Unix(int64(seq), 0))
			}
			p, oldest := w.position()
			for _, o := range open {
				require.Less(t, p.Seq, o.Seq)
			}
			require.Equal(t, len(open), w.open)
			require.Equal(t, len(open) == 0, oldest.IsZero())
			require.True(t, len(open) > 0 || p.Seq == seq, "nothing is open, and the position is %d of %d", p.Seq, seq)
			require.GreaterOrEqual(t, p.Seq, last, "the position only moves on")
			require.LessOrEqual(t, len(p.Marks), mostMarks)
			require.True(t, slices.IsSortedFunc(p.Marks, func(a, b mark) int { return cmp.Compare(a.Seq, b.Seq) }))
			require.True(t, len(p.Marks) == 0 || p.Marks[len(p.Marks)-1].Seq < p.Seq)
			require.True(t, p.Seq == 7 || p.At.Equal(time.Unix(int64(p.Seq), 0)), "its time is that of its record")
			last = p.Seq
		}
	})
}

// TestJudge is what follows from each kind of failure.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status      int
		tries       int
		over        time.Duration
		othersTaken bool
		want        verdict
	}{
		"the first failure":                   {500, 1, 0, true, again},
		"often, and others are taken":         {500, 5, 10 * time.Second, true, aside},
		"often, and nothing is taken":         {500, 5000, 48 * time.Hour, false, again},
		"often, within a moment":              {500, 5, 9 * time.Second, true, again},
		"gone, and others are taken":          {410, 1, 0, true, parked},
		"gone, and nothing is taken":          {410, 9, time.Hour, false, again},
		"refused for a day":                   {422, 50, 24 * time.Hour, true, parked},
		"refused for a day, with all others":  {401, 50, 24 * time.Hour, false, parked},
		"too many requests for a day":         {429, 50, 24 * time.Hour, false, again},
		"a redirect for a day":                {302, 50, 24 * time.Hour, false, again},
		"no answer for a day, others do come": {0, 50, 24 * time.Hour, true, aside},
	} {
		var tr trials
		begin := time.Now()
		for i := range c.tries {
			tr.failed(reply{status: c.status}, begin.Add(c.over*time.Duration(i+1)/time.Duration(c.tries)))
		}
		tr.first, tr.statusSince = begin, begin
		require.Equal(t, c.want, judge(&tr, c.othersTaken), name)
	}
	var changed trials
	changed.failed(reply{status: 422}, time.Now().Add(-25*time.Hour))
	changed.failed(reply{status: 500}, time.Now().Add(-time.Hour))
	changed.failed(reply{status: 422}, time.Now())
	require.False(t, changed.refusedForGood(), "not the same status all day")
}

// TestEventsOfRecords: an event's ID changes with what it tells, and with nothing else.
func TestEventsOfRecords(t *testing.T) {
	t.Parallel()
	record := func(change func(*order.Record)) *order.Record {
		r := &order.Record{OrderNo: "A-1", Word: "unknown", IntentID: "i1", WriteID: "w1", SettledAt: time.Unix(1, 5).UTC(), Settled: 1}
		change(r)
		return r
	}
	first := eventID(record(func(*order.Record) {}))
	for name, same := range map[string]func(*order.Record){
		"dropped letter": func(r *order.Record) { r.Dropped, r.WriteID = true, "w2" },
		"allowed":        func(r *order.Record) { r.AllowedFor, r.WriteID = "replay:1", "w2" },
		"stored again":   func(r *order.Record) { r.Settled, r.EnqueuedAt = 2, time.Unix(9, 0) },
	} {
		require.Equal(t, first, eventID(record(same)), name)
	}
	for name, other := range map[string]func(*order.Record){
		"another outcome":    func(r *order.Record) { r.Word = "accepted" },
		"another submission": func(r *order.Record) { r.IntentID = "i2" },
		"settled again":      func(r *order.Record) { r.SettledAt = time.Unix(2, 0) },
		"another conflict":   func(r *order.Record) { r.Conflicts = []order.Conflict{{IntentID: "i3"}} },
		"another order":      func(r *order.Record) { r.OrderNo = "A-2" },
	} {
		require.NotEqual(t, first, eventID(record(other)), name)
	}
	shared := submissions(record(func(r *order.Record) { r.Conflicts = []order.Conflict{{IntentID: "i2", Batch: "b"}} }))
	require.Equal(t, []Submission{{ID: "i1", Outcome: "unknown", Created: "unknown"}, {ID: "i2", Outcome: "unknown", Created: "unknown", Conflict: true, Batch: "b"}}, shared, "it shares the doubt")
	m, err := messageOf(settle.Entry{Record: record(func(r *order.Record) { r.Word, r.Note = order.Retrying, order.NoteAttempt })}, "A-1", time.Time{}, &filter{})
	require.NoError(t, err)
	require.Nil(t, m, "a note is no outcome")
}

// TestConfig: every mistake is named, and no secret is shown.
func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate(), "off")
	good := Config{URL: "https://shop.example/hooks", Secret: secret.Text(NewSecret()), Begin: "now"}
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Config){
		"ORDERPOST_NOTIFY_URL: scheme":               func(c *Config) { c.URL = "ftp://x" },
		"ORDERPOST_NOTIFY_URL: plain http to shop":   func(c *Config) { c.URL = "http://shop/hooks?token=hunter2" },
		"ORDERPOST_NOTIFY_URL: must not hold a user": func(c *Config) { c.URL = "https://a:hunter2@shop" },
		"ORDERPOST_NOTIFY_SECRET: secret 1 is not":   func(c *Config) { c.Secret = "whsec_hunter2!" },
		"ORDERPOST_NOTIFY_SECRET: secret 1 does not": func(c *Config) { c.Secret = "hunter2" },
		"ORDERPOST_NOTIFY_SECRET: secret 1 has 3":    func(c *Config) { c.Secret = "whsec_YWJj" },
		"ORDERPOST_NOTIFY_SECRET: holds 3 secrets":   func(c *Config) { c.Secret = secret.Text(NewSecret() + "\n" + NewSecret() + "\n" + NewSecret()) },
		"is required; orderpost notify secret":       func(c *Config) { c.Secret = "" },
		"ORDERPOST_NOTIFY_OUTCOMES: \"retrying\"":    func(c *Config) { c.Outcomes = []string{"accepted", "retrying"} },
		"ORDERPOST_NOTIFY_BEGIN: \"never\"":          func(c *Config) { c.Begin = "never" },
	} {
		c := good
		change(&c)
		err := c.Validate()
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	plain := good
	plain.URL, plain.PlainHTTPHosts = "http://shop/hooks", []string{"shop"}
	require.NoError(t, plain.Validate())
}

// newTestClient posts to an address with any secret.
func newTestClient(t *testing.T, address string) *client {
	t.Helper()
	config := Config{URL: address, Secret: secret.Text(NewSecret())}
	keys, err := newSecrets(config)
	require.NoError(t, err)
	c := newClient(config, keys, func(err error) { require.NoError(t, err) })
	t.Cleanup(c.close)
	return c
}

// TestAForeignAuthority: whose receiver has a certificate of its own authority learns how to name it.
func TestAForeignAuthority(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(receiver.Close)
	c := newTestClient(t, receiver.URL)
	require.Contains(t, c.post(t.Context(), &message{id: "1", body: []byte("{}")}).said, "signed by unknown authority: is it your own? Name its PEM file in SSL_CERT_FILE")
}

// TestAnAnswerThatRepeatsTheAddress, whose path and query may be secret, is kept and shown without
// them.
func TestAnAnswerThatRepeatsTheAddress(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, <-said)
	}))
	t.Cleanup(receiver.Close)
	c := newTestClient(t, receiver.URL+"/hooks%20of/s?k=SECRETQ&token=0123456789abcdef")
	for text, want := range map[string]string{
		"Cannot POST /hooks%20of/s?k=SECRETQ&token=0123456789abcdef":                    "Cannot POST …",
		"Cannot POST /hooks%20of/s?k=SECRETQ&amp;token=0123456789abcdef":                "Cannot POST …",
		`{"path":"/hooks%20of/s?k=SECRETQ\u0026token=0123456789abcdef"}`:                `{"path":"…"}`,
		`{"path":"\/hooks of\/s"}`:                                                      `{"path":"…"}`,
		"no page /hooks of/s here: k=SECRETQ&amp;token=0123456789abcdef, /hooks%20of/s": "no page … here: …, …",
		"The route hooks of/s could not be found":                                       "The route … could not be found",
		"who is 0123456789abcdef?":                                                      "who is …?",
		"no hooks/ here":                                                                "no hooks/ here",
	} {
		said <- text
		require.Equal(t, reply{status: http.StatusNotFound, said: want}, c.post(t.Context(), &message{id: "1", body: []byte("{}")}), text)
	}
	said <- "Cannot POST /"
	require.Equal(t, "Cannot POST /", newTestClient(t, receiver.URL).post(t.Context(), &message{id: "1"}).said)
}

// TestAnswersThatBreakTheRules say nothing of the address either. A redirect counts as one,
// wherever to.
func TestAnswersThatBreakTheRules(t *testing.T) {
	t.Parallel()
	answers := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // with more to read, closing would be a reset
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, <-answers)
		_ = conn.Close()
	}))
	t.Cleanup(receiver.Close)
	c := newTestClient(t, receiver.URL+"/hooks?k=SECRETQ")
	post := func(answer string) reply {
		answers <- answer
		return c.post(t.Context(), &message{id: "1", body: []byte("{}")})
	}
	for _, location := range []string{"http://[::1/hooks?k=SECRETQ", "/%zz", "//elsewhere/"} {
		r := post("HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: " + location + "\r\n\r\n")
		require.Equal(t, reply{status: http.StatusFound}, r, location)
		require.Contains(t, r.String(), "a redirect, which is not followed; set ORDERPOST_NOTIFY_URL")
	}
	r := post("404:/hooks?k=SECRETQ\r\n\r\n")
	require.Zero(t, r.status)
	require.Contains(t, r.said, `malformed HTTP response "404:…"`)
}

// TestAPauseOutlivesAnEventUnderWay: people read of the pause until it is over, whatever is taken
// meanwhile. What is taken afterwards ends it.
func TestAPauseOutlivesAnEventUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		r := newReceiver(func(problem string) { told = append(told, problem) })
		r.paused(reply{status: http.StatusTooManyRequests, after: time.Minute})
		paused := r.trouble()
		require.Regexp(t, `^status 429: nothing is sent until`, paused)
		r.took()
		require.Equal(t, paused, r.trouble())
		require.Equal(t, []string{paused}, told)
		time.Sleep(time.Minute)
		r.took()
		require.Empty(t, r.trouble())
		require.Equal(t, []string{paused, ""}, told)
	})
}

// TestAPauseOfAnEarlierSession is bounded: the clock that gave its end may have been wrong.
func TestAPauseOfAnEarlierSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{-time.Second: 0, time.Minute: time.Minute, 24 * time.Hour: longestPause} {
			r := newReceiver(func(string) {})
			r.resume(time.Now().Add(left).UTC().Round(0)) // as JSON brings it
			pause, _, _ := r.state()
			require.Equal(t, want, max(pause, 0))
			require.Equal(t, want > 0, r.trouble() != "")
			require.Equal(t, want > 0, !r.pausedUntil().IsZero())
		}
	})
}

// TestASecretFileThatCannotBeUsed is named with its setting, at the start and later. Then the
// former secret stays in use.
func TestASecretFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(NewSecret()), 0o600))
	config := Config{URL: "https://shop.example/hooks", Begin: beginNow, SecretFile: file}
	s, err := newSecrets(config)
	require.NoError(t, err)
	former := s.keys
	require.NoError(t, os.WriteFile(file, []byte("hunter2"), 0o600))
	want := "ORDERPOST_NOTIFY_SECRET_FILE: " + file + ": secret 1 does not begin with whsec_"
	require.EqualError(t, config.CheckFiles(), want)
	s.looked = time.Time{}
	keys, err := s.current()
	require.EqualError(t, err, want)
	require.Equal(t, former, keys)
	s.looked = time.Time{}
	_, err = s.current()
	require.NoError(t, err, "it is told once")
	require.NoError(t, os.Remove(file))
	s.looked = time.Time{}
	_, err = s.current()
	require.ErrorContains(t, err, "ORDERPOST_NOTIFY_SECRET_FILE: open "+file)
}
