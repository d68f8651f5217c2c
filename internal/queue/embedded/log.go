package embedded

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// faultLog keeps the server's last complaint, so a failed start can say why,
// and the first one which says that the server gave a stream up. It passes the
// server's warnings and errors to tell, and drops everything else that the server logs.
type faultLog struct {
	tell func(text string, isError bool) // nil = nobody wants to know
	bare []string                        // folders that the server complains about without a reason
	rate *rate.Limiter

	mu     sync.Mutex
	text   string
	gaveUp string
}

// A server that fails to write may complain about each message.
const (
	complaintsPerSecond = 1
	complaintsAtOnce    = 50
)

func newFaultLog(tell func(text string, isError bool), bare []string) *faultLog {
	return &faultLog{tell: tell, bare: bare, rate: rate.NewLimiter(complaintsPerSecond, complaintsAtOnce)}
}

func (l *faultLog) keep(isError bool, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.text = text
	if l.gaveUp == "" && strings.Contains(strings.ToLower(text), "critical write error") {
		l.gaveUp = text
	}
	l.mu.Unlock()
	about := func(folder string) bool { return strings.Contains(text, folder) }
	if strings.Contains(text, "Failed restoring partial batch write") { // nobody was told that it was stored (staging.go)
		return
	}
	if l.tell != nil && !slices.ContainsFunc(l.bare, about) && l.rate.Allow() {
		l.tell(strings.TrimSpace(text), isError)
	}
}

// critical returns what the server logged when it gave a stream up; "" if it
// did not. A removal that failed can make the server give a stream up. Its own
// health check does not report that before the next message is to be stored.
func (l *faultLog) critical() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaveUp
}

func (l *faultLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return "the server gave no reason"
	}
	return l.text
}

func (l *faultLog) Noticef(string, ...any)         {}
func (l *faultLog) Warnf(format string, v ...any)  { l.keep(false, format, v) }
func (l *faultLog) Fatalf(format string, v ...any) { l.keep(true, format, v) }
func (l *faultLog) Errorf(format string, v ...any) { l.keep(true, format, v) }
func (l *faultLog) Debugf(string, ...any)          {}
func (l *faultLog) Tracef(string, ...any)          {}
