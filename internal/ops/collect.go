package ops

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orderpost/internal/order"
)

// scrape takes the metrics of one scrape. labels are names, each with its value.
type scrape chan<- prometheus.Metric

func (to scrape) gauge(name, help string, v float64, labels ...string) {
	to.metric(prometheus.GaugeValue, name, help, v, labels)
}

func (to scrape) counter(name, help string, n uint64, labels ...string) {
	to.metric(prometheus.CounterValue, name, help, float64(n), labels)
}

// time is a gauge in seconds since 1970. A time that is zero has no value.
func (to scrape) time(name, help string, at time.Time, labels ...string) {
	if !at.IsZero() {
		to.gauge(name, help, float64(at.UnixMilli())/1000, labels...)
	}
}

func (to scrape) metric(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	desc := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, names, nil)
	to <- prometheus.MustNewConstMetric(desc, kind, v, values...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collector exports a new state at every scrape.
type collector func(to scrape)

// Describe implements prometheus.Collector. Which metrics there are depends on what is known.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

const fleetWide = " Of the whole fleet: each worker reports the same value, and no value while the broker does not answer."

// export exports the state. blocks and stages name the gate's blocks and their stages.
func (s Snapshot) export(to scrape, blocks, stages []string) {
	to.gauge("broker_connected", "1 while the broker is in reach.", number(s.Connected))
	if s.Broker != nil {
		to.gauge("broker_info", "1, with the version of the server that this worker is connected to, and whether programs work with it: ok, weak (it has a known defect) or refused; none without a connection.", 1, "version", s.Broker.Version, "verdict", s.Broker.Verdict)
	}
	to.gauge("draining", "1 while the worker stops and takes nothing new.", number(s.Draining))
	to.gauge("in_flight_orders", "Orders that this worker has in hand.", float64(s.InFlight))
	to.gauge("slots", "Orders that this worker can have in hand (ORDERPOST_CONCURRENCY).", float64(s.Slots))

	to.gauge("gate_open", "1 while orders are posted freely, 0 while a block stands (orderpost_gate_block).", number(s.Gate.Open))
	for _, name := range blocks {
		for _, stage := range stages {
			stands := slices.ContainsFunc(s.Gate.Blocks, func(b Block) bool { return b.Name == name && b.Stage == stage })
			to.gauge("gate_block", "1 while a reason not to post orders stands, by block and by how shut it is.", number(stands), "block", name, "stage", stage)
		}
	}
	to.gauge("fleet_held", "1 while a person holds the fleet (orderpost hold), as this worker knows it.", number(s.Held))
	to.gauge("in_flight_requests", "Requests to the API under way.", float64(s.Gate.InFlight))
	to.gauge("in_flight_requests_limit", "Requests that may be under way now: the ramp, which grows with success and is cut when the API asks for slower requests.", float64(s.Gate.Limit))
	to.gauge("gate_waiting_orders", "Orders in hand that wait in front of the gate.", float64(s.Gate.Waiting))
	to.gauge("rate_limit_requests", "Rate limit in requests per second; 0 = none.", s.Gate.Rate)

	failures := func(stream string, n WriteFailures) {
		const name, help = "publish_failures_total", "Writes of results (notes included) and dead letters that the broker refused, or did not confirm; all of them are looked up or repeated."
		to.counter(name, help, n.Refused, "stream", stream, "cause", "refused")
		to.counter(name, help, n.Unconfirmed, "stream", stream, "cause", "unconfirmed")
	}
	failures("results", s.Failures.Results)
	failures("dead_letters", s.Failures.Letters)
	for _, o := range order.Outcomes() {
		if o.NeedsLetter() {
			to.counter("dead_letters_filed_total", "Dead letters that this worker filed, by outcome.", s.Filed[o], "outcome", o.String())
		}
	}
	to.gauge("scaling_orders", "Orders that one more worker could take up and post now; 0 while the gate is not open, and while the rate limit is what makes orders wait. Of the whole fleet, as this worker sees it: take the maximum.", float64(s.ScalingOrders()))
	to.counter("lease_losses_total", "Claims that expired before this worker finished their orders.", s.LeaseLosses)
	if s.Clock != nil {
		to.gauge("clock_offset_seconds", "The API's clock minus this machine's, estimated from its answers; no value before the first answer.", s.Clock.Offset.Seconds())
		to.gauge("clock_offset_error_seconds", "How far the clock offset may be off.", s.Clock.Error.Seconds())
	}

	if s.Sizes != nil {
		s.Sizes.export(to)
	}
	for _, p := range s.Parts {
		to.gauge("stream_present", "1 while the broker has the stream, 0 while it is missing or lost its end: intents, results, dead_letters, waiting, journal, fleet (the bucket) or consumer (of the intents). As last seen; none before the broker was asked.", number(p.Present), "stream", p.Name)
		if p.Precious {
			to.counter("streams_replaced_total", "How often a stream was found to be another one than before: what it had held is gone.", p.Replaced, "stream", p.Name)
		}
	}
	to.gauge("intent_stranded", "1 while an intent is stored without an outcome and the broker delivers it to nobody; only in the worker that trims the log.", number(s.Stranded))
	to.gauge("storage_failing", "1 while the broker does not store what this worker writes: its disk is full or fails (/readyz says which).", number(s.Store.Failing != ""))
	to.gauge("intents_refused", "1 while the intents stream takes no more from producers: a limit is reached, or the embedded broker keeps the rest of its disk for results and dead letters.", number(s.Store.Full != ""))
	if s.Store.Free != nil {
		to.gauge("storage_free_bytes", "Bytes that are free on the disk of the embedded broker; only in the worker that runs it.", float64(*s.Store.Free))
	}
}

func (z *Sizes) export(to scrape) {
	to.gauge("pending_orders", "Orders without an outcome, delayed ones and those in flight included."+fleetWide, float64(z.Pending))
	to.time("oldest_due_timestamp_seconds", "Since when the oldest order without an outcome may be sent: it was stored then, or the time that its producer gave it came; in seconds since 1970 by the broker's clock; none where nothing may be sent yet."+fleetWide, z.OldestDue)
	to.gauge("dead_letters", "Dead letters; for up to an hour also such as no result names."+fleetWide, float64(z.Letters))
	to.gauge("waiting_room_orders", "Orders in the waiting room: for their turn, for their time, or paused."+fleetWide, float64(z.InRoom))
	to.gauge("waiting_room_fed", "0 while orders are in the waiting room and no worker moves them into the queue, or can; otherwise 1."+fleetWide, number(z.Fed || z.InRoom == 0))
	to.gauge("held_imports", "Imports whose waiting orders stay where they are, because a person paused them."+fleetWide, float64(z.Paused))
	for _, l := range z.Lanes {
		to.gauge("lane_orders", "Orders that wait for their turn, by lane of the waiting room, without those of paused imports."+fleetWide, float64(l.Ready), "lane", l.Name)
		to.time("lane_oldest_timestamp_seconds", "When the oldest order that waits for its turn was stored, or its time came, in seconds since 1970, by lane; none where none waits."+fleetWide, l.Oldest, "lane", l.Name)
	}
}
