package ops

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// GatewayOptions configure the metrics of an HTTP door.
type GatewayOptions struct {
	// Routes, Results and Statuses name what the door answers. All series exist from the start.
	Routes, Results []string
	Statuses        []int
}

// Gateway holds the metrics of an HTTP door. Its methods are safe for concurrent use. No
// label contains data of an order.
type Gateway struct {
	requests *prometheus.CounterVec
	orders   *prometheus.CounterVec
	took     *prometheus.HistogramVec
	open     *prometheus.GaugeVec
	brought  atomic.Uint64
}

// NewGateway registers the metrics of an HTTP door with reg. It panics where reg has them
// already.
func NewGateway(reg prometheus.Registerer, o GatewayOptions) *Gateway {
	f := promauto.With(reg)
	g := &Gateway{
		requests: counter(f, "gateway_requests_total", "Requests that the HTTP door answered, by route and status. Status 0 means that the client was gone before.", "route", "status"),
		orders:   counter(f, "gateway_orders_total", "Orders that clients posted to the HTTP door, by what became of each: stored, same, or the name of a problem.", "result"),
		took:     histograms(f, "gateway_request_duration_seconds", "Time from a request's header to the end of its answer, waits included, by route.", waitingBuckets, "route"),
		open: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "gateway_open_requests",
			Help: "Requests under way at the HTTP door, long polls and feeds included, by route."}, []string{"route"}),
	}
	for _, route := range o.Routes {
		g.took.WithLabelValues(route)
		g.open.WithLabelValues(route)
		for _, status := range o.Statuses {
			g.requests.WithLabelValues(route, strconv.Itoa(status))
		}
	}
	for _, result := range o.Results {
		g.orders.WithLabelValues(result)
	}
	return g
}

// Requested counts an answered request.
func (g *Gateway) Requested(route string, status int, took time.Duration) {
	g.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	g.took.WithLabelValues(route).Observe(took.Seconds())
}

// Submitted counts an order by what became of it.
func (g *Gateway) Submitted(result string) {
	g.brought.Add(1)
	g.orders.WithLabelValues(result).Inc()
}

// Brought returns how many orders were counted.
func (g *Gateway) Brought() uint64 { return g.brought.Load() }

// Opened counts a request under way until closed is called.
func (g *Gateway) Opened(route string) (closed func()) {
	gauge := g.open.WithLabelValues(route)
	gauge.Inc()
	return gauge.Dec
}
