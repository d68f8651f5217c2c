package queue

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// The broker answers no publish that a NATS user may not make. It only tells the connection
// of it, with the subject. Such a message is stored nowhere.

const (
	// deniedGrace is how long a publish of several messages waits for the rest of the
	// answers once one of them was denied.
	deniedGrace = 200 * time.Millisecond
	// deniedFor is for how long a denial counts in Unusable. Nothing tells that a right was
	// given, so after that the next order finds it out.
	deniedFor = 30 * time.Second
)

// errDenied is wrapped by the errors of messages that the broker denied.
var errDenied = errors.New("a right is missing")

// deniedSubject finds the subject in what the broker says.
var deniedSubject = regexp.MustCompile(`Publish to "([^"]+)"`)

// denials are what the broker denies a connection.
type denials struct {
	mu      sync.Mutex
	watches map[*denied]bool
	last    lately // a message that a watch was about
	orders  lately // a request for orders, or an answer to a delivery
}

// lately is what was denied last, which counts for deniedFor.
type lately struct {
	err error
	at  time.Time
}

// why says what was denied; "" = nothing lately.
func (l lately) why() string {
	if l.err == nil || time.Since(l.at) > deniedFor {
		return ""
	}
	return l.err.Error()
}

const (
	// pullSubjects begin the subjects of requests for orders.
	pullSubjects = "$JS.API.CONSUMER.MSG.NEXT."
	// ackSubjects begin the subjects of the answers to deliveries.
	ackSubjects = "$JS.ACK."
)

// denied collects the denials of the messages of one call.
type denied struct {
	conn   *Conn
	prefix string // of their subjects
	most   int    // how many there are
	quiet  bool   // a denial is not logged
	cancel func()

	// What follows is guarded by the mutex of the connection's denials.
	subjects map[string]bool
	grace    *time.Timer
}

// watchDenied collects denials of at most most messages whose subjects have a prefix. It
// calls cancel when all of them are denied, or some and the others have no answer a moment
// later. The caller calls end.
func (cn *Conn) watchDenied(prefix string, most int, cancel func()) *denied {
	w := &denied{conn: cn, prefix: prefix, most: most, cancel: cancel}
	cn.denials.mu.Lock()
	defer cn.denials.mu.Unlock()
	if cn.denials.watches == nil {
		cn.denials.watches = make(map[*denied]bool)
	}
	cn.denials.watches[w] = true
	return w
}

func (w *denied) end() {
	w.conn.denials.mu.Lock()
	defer w.conn.denials.mu.Unlock()
	delete(w.conn.denials.watches, w)
	if w.grace != nil {
		w.grace.Stop()
	}
}

// of returns why one of the messages with these subjects was denied; nil = none was, as far
// as is known.
func (w *denied) of(subjects ...string) error {
	w.conn.denials.mu.Lock()
	defer w.conn.denials.mu.Unlock()
	for _, s := range subjects {
		if w.subjects[s] {
			return w.conn.denial(s)
		}
	}
	return nil
}

// denial is the error of a message that the broker denied. MayBeStored does not hold for it.
func (cn *Conn) denial(subject string) error {
	return fmt.Errorf("%w: the broker lets the NATS user of %s publish nothing to %q; mend its role in nats.conf (\"Which roles are there?\" in docs/operations.md)",
		errDenied, cn.cfg.Name, subject)
}

// deny tells those who wait of a denial. It reports whether the same was denied lately, or need not be logged.
func (cn *Conn) deny(err error) (again bool) {
	found := deniedSubject.FindStringSubmatch(err.Error())
	if found == nil {
		return false
	}
	subject, d := found[1], &cn.denials
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasPrefix(subject, ackSubjects) {
		subject = ackSubjects + ">" // the rest names the delivery
	}
	now := lately{cn.denial(subject), time.Now()}
	if strings.HasPrefix(subject, pullSubjects) || strings.HasPrefix(subject, ackSubjects) {
		again = d.orders.why() == now.err.Error()
		d.orders = now
	}
	for w := range d.watches {
		if !strings.HasPrefix(subject, w.prefix) {
			continue
		}
		if w.quiet {
			again = true
		} else {
			d.last = now
		}
		if w.subjects == nil {
			w.subjects = make(map[string]bool)
			w.grace = time.AfterFunc(deniedGrace, w.cancel)
		}
		if w.subjects[subject] = true; len(w.subjects) >= w.most {
			w.cancel()
		}
	}
	return again
}

// OrdersDenied says that this worker may request no orders, or acknowledge none; "" = it may, as
// far as is known. The broker answers neither. So the queue looks empty, or settled orders come
// again and again.
func (cn *Conn) OrdersDenied() string { return cn.denials.why(&cn.denials.orders) }

// why says what was denied lately; "" = nothing.
func (d *denials) why(l *lately) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.why()
}
