package ops

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxAnswers is the number of different answers that have a series of their own. A series
// is never given back, so a worker has no more than these and one for each status.
const maxAnswers = 50

// otherAnswers is the label of all further answers.
const otherAnswers = "(other)"

// answers counts failed orders by the status and the words of their last answer.
type answers struct {
	vec *prometheus.CounterVec

	mu    sync.Mutex
	known map[[2]string]prometheus.Counter
}

func newAnswers(f promauto.Factory) *answers {
	return &answers{known: make(map[[2]string]prometheus.Counter), vec: counter(f, "failed_orders_total",
		"Orders that this worker settled with a dead letter, by the status of the last answer and by what that answer says: its code and its message, folded and cut. Status 0 means no answer. The first 50 pairs have series of their own; the rest of a status are \"(other)\".",
		"status", "answer")}
}

func (a *answers) count(status int, said string) {
	key := [2]string{strconv.Itoa(status), said}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.known[key]
	if c == nil {
		if len(a.known) >= maxAnswers {
			a.vec.WithLabelValues(key[0], otherAnswers).Inc()
			return
		}
		c = a.vec.WithLabelValues(key[0], key[1])
		a.known[key] = c
	}
	c.Inc()
}

// Failed counts an order that was settled with a dead letter. said is what the last
// answer says.
func (m *Metrics) Failed(status int, said string) { m.answers.count(status, said) }
