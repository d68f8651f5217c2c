package embedded

import (
	"fmt"
	"strings"
	"sync"
)

// faultLog keeps the server's last complaint, so that a failed start can say
// why, and the first that says that a stream is given up. Everything else that the server logs is dropped: it talks about its own
// workings, which orderpost's log does not repeat.
type faultLog struct {
	mu     sync.Mutex
	text   string
	gaveUp string
}

func (l *faultLog) keep(format string, v []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = fmt.Sprintf(format, v...)
	if l.gaveUp == "" && strings.Contains(strings.ToLower(l.text), "critical write error") {
		l.gaveUp = l.text
	}
}

// critical is what the server logged when it gave a stream up; "" where it has
// not. The store of a stream can be given up by a removal that failed, which the
// server's own health check does not tell before the next message is to be stored.
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
func (l *faultLog) Warnf(format string, v ...any)  { l.keep(format, v) }
func (l *faultLog) Fatalf(format string, v ...any) { l.keep(format, v) }
func (l *faultLog) Errorf(format string, v ...any) { l.keep(format, v) }
func (l *faultLog) Debugf(string, ...any)          {}
func (l *faultLog) Tracef(string, ...any)          {}
