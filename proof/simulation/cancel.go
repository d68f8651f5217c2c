package simulation

import (
	"slices"
	"time"

	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// cancel lets a person cancel an order by a mark. Her command tries again until the broker
// confirms it.
func (w *world) cancel(h *host, no string) {
	for range 4 {
		err := h.request(func() { w.broker.cancel(no) })
		w.e.trace.say(w.e, h.name, "cancel", no, "%v", err)
		if err == nil {
			return
		}
		w.e.nap(pauseAfter(err))
	}
}

// cancel stores a mark that covers what is stored of an order_no now.
func (b *broker) cancel(no string) {
	m := settle.Cancellation{OrderNo: no, Queued: settle.StreamSeq{Seq: b.seq, Birth: birth}, Waiting: settle.StreamSeq{Seq: b.waiting.seq, Birth: birth}, By: anna.Name, At: b.w.e.now()}
	b.cancelled.Marks = append(slices.Clone(b.cancelled.Marks), m)
	b.cancelled.Version++
	b.w.witness.tell(oracle.Event{Kind: oracle.Marked, OrderNo: no, Seq: m.Queued.Seq, Waited: m.Waiting.Seq, Count: uint64(b.cancelled.Version)})
	b.w.e.trace.say(b.w.e, "broker", "mark", no, "up to %d, and %d in the waiting room", m.Queued.Seq, m.Waiting.Seq)
	for _, h := range b.w.hosts {
		h.hear()
	}
}

// hear tells a process what was cancelled, after a while. It hears nothing while it is cut
// off, and again when it is connected.
func (h *host) hear() {
	if h.dead || len(h.w.broker.cancelled.Marks) == 0 {
		return
	}
	link := h.link
	h.e.after(h.e.between(0, 2*time.Second), func() {
		if known := h.w.broker.cancelled; h.up && !h.cut && h.link == link {
			h.notice(func() {
				if h.machine == nil || !h.w.drops(Withdrawn) {
					h.q.Ledger.SetCancellations(known)
				}
				h.w.witness.tell(oracle.Event{Kind: oracle.Heard, Process: h.run, Count: uint64(known.Version)})
			})
		}
	})
}

// fresh reports whether a mark that covers a waiting intent is so new that a move of a
// former feeder may be under way. The fleet has one feeder, which knows when its own moves
// have ended, and takes over when its predecessor's have.
func (b *broker) fresh(m *settle.Message) bool {
	return slices.ContainsFunc(b.cancelled.Marks, func(c settle.Cancellation) bool {
		return c.OrderNo == settle.WaitingOrderNo(m) && m.Seq <= c.Waiting.Seq && b.w.e.now().Sub(c.At) < feederTerm+settle.RequestTimeout
	})
}
