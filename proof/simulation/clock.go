package simulation

import (
	"time"
	"unsafe"

	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

// clock is the clock of one worker's machine, as it differs from the true time. A
// correction makes the wall clock jump. The monotonic clock never jumps, but it stands
// still while the machine is suspended.
type clock struct {
	jumped, slept time.Duration
}

// clocked reports whether clocks may differ in this schedule.
func (p *plan) clocked() bool { return p.ClockJumps > 0 || p.Suspends > 0 }

// now returns the time as the process reads it, with a monotonic reading if the two
// clocks may differ.
func (h *host) now() time.Time {
	if !h.w.cfg.clocked() {
		return h.e.now()
	}
	var c clock
	if h.machine != nil {
		c = *h.machine
	}
	return reading(h.e.now().Add(c.jumped), h.e.at-c.slept)
}

// wall returns the time as the process writes it into records.
func (h *host) wall() time.Time { return h.now().Round(0) }

// reading returns a time.Time with the given readings of both clocks. Package time makes
// such a value from the machine's clocks alone, so reading writes its fields.
// TestReadingHasBothClocks checks that they are what they are taken for.
func reading(wall time.Time, monotonic time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	t := time.Now()
	f := (*struct {
		wall uint64 // seconds since 1885, and nanoseconds
		ext  int64  // the monotonic clock
		_    *time.Location
	})(unsafe.Pointer(&t))
	f.wall = hasMonotonic | uint64(wall.Unix()-year1885)<<30 | uint64(wall.Nanosecond())
	f.ext = int64(monotonic) + 1
	return t
}

var year1885 = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// stored takes the monotonic readings from the times of a record, as JSON does.
func stored(r *order.Record) {
	for _, t := range [...]*time.Time{&r.FirstAttemptAt, &r.LastAttemptAt, &r.EnqueuedAt, &r.SettledAt, &r.NotBefore, &r.AbsentAt} {
		*t = t.Round(0)
	}
}

// jump makes the machine's wall clock jump.
func (h *host) jump(d time.Duration) {
	if h.dead {
		return
	}
	h.w.faults++
	h.e.reached.strike(FaultClock, h.step())
	h.e.trace.say(h.e, h.name, "clock jumps", "", "by %s", d)
	h.machine.jumped += d
	h.w.jumped += max(d, -d)
	h.w.witness.tell(oracle.Event{Kind: oracle.ClockSet, Process: h.run, Shift: oracle.Moment(h.machine.jumped)})
}

// suspend stops the machine for d. Its monotonic clock stands still.
func (h *host) suspend(d time.Duration) {
	if h.dead || h.frozen > h.e.at {
		return
	}
	h.w.faults++
	h.e.reached.strike(FaultSuspend, h.step())
	h.e.trace.say(h.e, h.name, "suspended", "", "for %s", d)
	h.frozen = h.e.at + d
	h.machine.slept += d
	h.w.witness.tell(oracle.Event{Kind: oracle.Suspended, Process: h.run, Until: oracle.Moment(h.frozen)})
}

// drawJump draws how far a clock jumps: within a claim, by an hour, or by years.
func (w *world) drawJump() time.Duration {
	d := w.e.between(time.Second, 2*w.cfg.AckWait)
	if w.e.chance(0.2) {
		d = w.e.between(time.Minute, time.Hour)
		if w.cfg.BrokerClocks > 0 && w.e.chance(0.5) { // schedules without came first
			d *= 10_000
		}
	}
	if w.e.chance(0.5) {
		return -d
	}
	return d
}
