package ops

import (
	"github.com/prometheus/client_golang/prometheus"

	"orderpost/internal/order"
)

// collector takes a new snapshot at every scrape and exports it as metrics.
type collector struct {
	Options

	connected, draining         *prometheus.Desc
	server                      *prometheus.Desc
	inFlight, slots             *prometheus.Desc
	gateOpen, gateBlock         *prometheus.Desc
	fleetHeld                   *prometheus.Desc
	requests, limit             *prometheus.Desc
	waiting, rate               *prometheus.Desc
	leaseLosses                 *prometheus.Desc
	failures, filed, scaling    *prometheus.Desc
	clockOffset, clockError     *prometheus.Desc
	pending, oldest, deadMail   *prometheus.Desc
	held, lane, laneOldest      *prometheus.Desc
	fed, heldImports            *prometheus.Desc
	present, replaced, stranded *prometheus.Desc
	failing, full, free         *prometheus.Desc
}

const fleetWide = " Of the whole fleet: each worker reports the same value, and no value while the broker does not answer."

func newCollector(o Options) *collector {
	if o.State == nil {
		o.State = func() Snapshot { return Snapshot{} }
	}
	return &collector{
		Options:   o,
		connected: desc("broker_connected", "1 while the broker is in reach."),
		server:    desc("broker_info", "1, with the version of the server that this worker is connected to, and whether programs work with it: ok, weak (it has a known defect) or refused; none without a connection.", "version", "verdict"),
		draining:  desc("draining", "1 while the worker stops and takes nothing new."),
		inFlight:  desc("in_flight_orders", "Orders that this worker has in hand."),
		slots:     desc("slots", "Orders that this worker can have in hand (ORDERPOST_CONCURRENCY)."),

		gateOpen:  desc("gate_open", "1 while orders are posted freely, 0 while a block stands (orderpost_gate_block)."),
		gateBlock: desc("gate_block", "1 while a reason not to post orders stands, by block and by how shut it is.", "block", "stage"),
		fleetHeld: desc("fleet_held", "1 while a person holds the fleet (orderpost hold), as this worker knows it."),
		requests:  desc("in_flight_requests", "Requests to the API under way."),
		limit:     desc("in_flight_requests_limit", "Requests that may be under way now: the ramp, which grows with success and is cut when the API asks for slower requests."),
		waiting:   desc("gate_waiting_orders", "Orders in hand that wait in front of the gate."),
		rate:      desc("rate_limit_requests", "Rate limit in requests per second; 0 = none."),

		failures:    desc("publish_failures_total", "Writes of results (notes included) and dead letters that the broker refused, or did not confirm; all of them are looked up or repeated.", "stream", "cause"),
		filed:       desc("dead_letters_filed_total", "Dead letters that this worker filed, by outcome.", "outcome"),
		scaling:     desc("scaling_orders", "Orders that one more worker could take up and post now; 0 while the gate is not open, and while the rate limit is what makes orders wait. Of the whole fleet, as this worker sees it: take the maximum."),
		leaseLosses: desc("lease_losses_total", "Claims that expired before this worker finished their orders."),
		clockOffset: desc("clock_offset_seconds", "The API's clock minus this machine's, estimated from its answers; no value before the first answer."),
		clockError:  desc("clock_offset_error_seconds", "How far the clock offset may be off."),

		pending:  desc("pending_orders", "Orders without an outcome, delayed ones and those in flight included."+fleetWide),
		oldest:   desc("oldest_due_timestamp_seconds", "Since when the oldest order without an outcome may be sent: it was stored then, or the time that its producer gave it came; in seconds since 1970 by the broker's clock; none where nothing may be sent yet."+fleetWide),
		deadMail: desc("dead_letters", "Dead letters; for up to an hour also such as no result names."+fleetWide),

		held:        desc("waiting_room_orders", "Orders in the waiting room: for their turn, for their time, or paused."+fleetWide),
		lane:        desc("lane_orders", "Orders that wait for their turn, by lane of the waiting room, without those of paused imports."+fleetWide, "lane"),
		fed:         desc("waiting_room_fed", "0 while orders are in the waiting room and no worker moves them into the queue, or can; otherwise 1."+fleetWide),
		heldImports: desc("held_imports", "Imports whose waiting orders stay where they are, because a person paused them."+fleetWide),
		laneOldest:  desc("lane_oldest_timestamp_seconds", "When the oldest order that waits for its turn was stored, or its time came, in seconds since 1970, by lane; none where none waits."+fleetWide, "lane"),

		present:  desc("stream_present", "1 while the broker has the stream, 0 while it is missing or lost its end: intents, results, dead_letters, waiting, journal, fleet (the bucket) or consumer (of the intents). As last seen; none before the broker was asked.", "stream"),
		replaced: desc("streams_replaced_total", "How often a stream was found to be another one than before: what it had held is gone.", "stream"),
		stranded: desc("intent_stranded", "1 while an intent is stored without an outcome and the broker delivers it to nobody; only in the worker that trims the log."),
		failing:  desc("storage_failing", "1 while the broker does not store what this worker writes: its disk is full or fails (/readyz says which)."),
		full:     desc("intents_refused", "1 while the intents stream takes no more from producers: a limit is reached, or the embedded broker keeps the rest of its disk for results and dead letters."),
		free:     desc("storage_free_bytes", "Bytes that are free on the disk of the embedded broker; only in the worker that runs it."),
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connected, c.server, c.draining, c.inFlight, c.slots, c.gateOpen, c.gateBlock, c.fleetHeld,
		c.requests, c.limit, c.waiting, c.rate,
		c.leaseLosses, c.failures, c.filed, c.scaling, c.clockOffset, c.clockError, c.pending, c.oldest, c.deadMail, c.held, c.fed, c.heldImports, c.lane, c.laneOldest, c.present, c.replaced, c.stranded, c.failing, c.full, c.free} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.State()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.connected, number(s.Connected))
	if s.Broker != nil {
		gauge(c.server, 1, s.Broker.Version, s.Broker.Verdict)
	}
	gauge(c.draining, number(s.Draining))
	gauge(c.inFlight, float64(s.InFlight))
	gauge(c.slots, float64(s.Slots))
	gauge(c.gateOpen, number(s.Gate.Open))
	gauge(c.fleetHeld, number(s.Held))
	gauge(c.requests, float64(s.Gate.InFlight))
	gauge(c.limit, float64(s.Gate.Limit))
	gauge(c.waiting, float64(s.Gate.Waiting))
	gauge(c.rate, s.Gate.Rate)
	for label, stands := range c.blocks(s.Gate.Blocks) {
		gauge(c.gateBlock, number(stands), label.name, label.stage)
	}
	if s.Clock != nil {
		gauge(c.clockOffset, s.Clock.Offset.Seconds())
		gauge(c.clockError, s.Clock.Error.Seconds())
	}
	if s.Sizes != nil {
		gauge(c.pending, float64(s.Sizes.Pending))
		if !s.Sizes.OldestDue.IsZero() {
			gauge(c.oldest, float64(s.Sizes.OldestDue.UnixMilli())/1000)
		}
		gauge(c.deadMail, float64(s.Sizes.Letters))
		gauge(c.held, float64(s.Sizes.InRoom))
		gauge(c.fed, number(s.Sizes.Fed || s.Sizes.InRoom == 0))
		gauge(c.heldImports, float64(s.Sizes.Paused))
		for _, l := range s.Sizes.Lanes {
			gauge(c.lane, float64(l.Ready), l.Name)
			if !l.Oldest.IsZero() {
				gauge(c.laneOldest, float64(l.Oldest.UnixMilli())/1000, l.Name)
			}
		}
	}
	for _, p := range s.Parts {
		gauge(c.present, number(p.Present), p.Name)
	}
	gauge(c.stranded, number(s.Stranded))
	gauge(c.failing, number(s.Store.Failing != ""))
	gauge(c.full, number(s.Store.Full != ""))
	if s.Store.Free != nil {
		gauge(c.free, float64(*s.Store.Free))
	}
	gauge(c.scaling, float64(s.ScalingOrders()))
	c.count(out, s)
}

// count exports the counters of the snapshot.
func (c *collector) count(out chan<- prometheus.Metric, s Snapshot) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	counter(c.leaseLosses, s.LeaseLosses)
	counter(c.failures, s.Failures.Results.Refused, "results", "refused")
	counter(c.failures, s.Failures.Results.Unconfirmed, "results", "unconfirmed")
	counter(c.failures, s.Failures.Letters.Refused, "dead_letters", "refused")
	counter(c.failures, s.Failures.Letters.Unconfirmed, "dead_letters", "unconfirmed")
	for _, p := range s.Parts {
		if p.Precious {
			counter(c.replaced, p.Replaced, p.Name)
		}
	}
	for _, o := range order.Outcomes() {
		if o.NeedsLetter() {
			counter(c.filed, s.Filed[o], o.String())
		}
	}
}

type blockLabel struct{ name, stage string }

// blocks reports for every block and stage whether it stands. Several holds count as
// one.
func (c *collector) blocks(standing []Block) map[blockLabel]bool {
	all := make(map[blockLabel]bool, len(c.Blocks)*len(c.Stages))
	for _, name := range c.Blocks {
		for _, stage := range c.Stages {
			all[blockLabel{name, stage}] = false
		}
	}
	for _, b := range standing {
		all[blockLabel{b.Name, b.Stage}] = true
	}
	return all
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
