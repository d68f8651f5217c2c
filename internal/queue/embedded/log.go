package embedded

import (
	"fmt"
	"sync"
)

// faultLog keeps the server's last complaint, so that a failed start can say
// why. Everything else that the server logs is dropped: it talks about its own
// workings, which orderpost's log does not repeat.
type faultLog struct {
	mu   sync.Mutex
	text string
}

func (l *faultLog) keep(format string, v []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = fmt.Sprintf(format, v...)
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
