package embedded

import (
	"fmt"
	"strings"
	"sync"
)

// faultLog keeps the server's last complaint, so a failed start can say why,
// and the first one which says that the server gave a stream up. It drops
// everything else that the server logs.
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
func (l *faultLog) Warnf(format string, v ...any)  { l.keep(format, v) }
func (l *faultLog) Fatalf(format string, v ...any) { l.keep(format, v) }
func (l *faultLog) Errorf(format string, v ...any) { l.keep(format, v) }
func (l *faultLog) Debugf(string, ...any)          {}
func (l *faultLog) Tracef(string, ...any)          {}
