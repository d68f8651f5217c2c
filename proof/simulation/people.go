package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// produce lets producers submit an order_no: once, again with the same ID (after a lost
// confirmation, or later), or under a new ID with the same or a corrected body.
func (w *world) produce(no string) {
	r := w.e.rng
	first := 0
	if r.Float64() < 0.05 {
		first = invalidBody
	}
	w.submit(no, 1, no+"-1", first, w.e.between(0, 2*time.Second))
	for i := 2; i < 4 && r.Float64() < 0.3; i++ {
		id, body := fmt.Sprint(no, "-", i), 0
		switch r.IntN(5) {
		case 0:
			id = no + "-1"
		case 1:
			body = i
		case 2:
			id = ""
		case 3:
			body = invalidBody
		}
		w.submit(no, i, id, body, w.e.between(0, w.cfg.Trouble+30*time.Second))
	}
}

// invalidBody is the number of a body that can never be sent.
const invalidBody = -1

func bodyOf(no string, body int) []byte {
	if body == invalidBody {
		return fmt.Appendf(nil, `{"order_no":%q}`, no)
	}
	return fmt.Appendf(nil, `{"order_no":%q,"timeout":60,"n":%d}`, no, body)
}

// submit starts a producer that publishes an order's n-th intent until the broker
// confirms it or the producer is killed.
func (w *world) submit(no string, n int, id string, body int, in time.Duration) {
	deadline := time.Time{}
	if w.e.rng.Float64() < 0.1 {
		deadline = epoch.Add(in + w.e.between(0, 20*time.Second))
	}
	waits := w.cfg.Feeders > 0 && w.e.chance(0.7)
	w.process("p-"+no, streamOf(ofProducer, numberOf(no), n, 0), in, func(h *host) {
		in := settle.Intent{OrderNo: no, ID: id, Deadline: deadline, Body: bodyOf(no, body), Batch: "b:" + id, Source: "s:" + id} // its own
		if id == "" {
			in.Batch, in.Source = fmt.Sprint("b:", no, "-", n), fmt.Sprint("s:", no, "-", n)
		}
		for range 5 {
			h.e.running.step = StepPublish
			var err error
			if waits {
				err = store{w, h}.wait(h.q.Producer.IntentMessage(in))
			} else {
				_, err = h.q.Producer.Publish(context.Background(), in)
			}
			if err == nil || errors.Is(err, settle.ErrSwallowed) || id == "" {
				return // without an ID a repetition would be another submission
			}
			w.e.nap(w.e.between(100*time.Millisecond, 3*time.Second))
		}
	})
}

func isLink(err error) bool { return errors.Is(err, errLink) }

// pauseAfter returns how long a person waits after an error before she tries again. Storage
// that is full, or an intent that is in the queue, takes longer than a request that was lost.
func pauseAfter(err error) time.Duration {
	if errors.Is(err, settle.ErrStorage) || errors.Is(err, settle.ErrPending) {
		return 10 * time.Second
	}
	return time.Second
}

// process starts a program that ends by itself unless it is killed.
func (w *world) process(name string, id streamID, in time.Duration, body func(h *host)) {
	if w.e.schedule.dropped(id, 0) {
		return
	}
	w.busy++
	w.e.after(in, func() {
		h := w.newHost(name, id)
		h.faulty = !w.quiet
		h.open()
		w.e.in(id, func() {
			if w.chance(0.2) && w.e.happens() {
				h.crashIn = 1 + w.e.rng.IntN(12)
			}
			if w.chance(0.1) && w.e.happens() {
				h.freezeIn, h.freezeFor = 1+w.e.rng.IntN(12), w.e.between(0, 2*w.cfg.AckWait)
			}
		})
		ended := false
		h.restart = func() {
			if !ended { // its user sees that it was killed and starts it again
				ended = true
				w.busy--
				w.process(name, id+1, w.e.between(time.Second, 5*time.Second), body) // a stream of its own
			}
		}
		w.e.spawn(h, func(*proc) {
			body(h)
			ended = true
			w.busy--
			h.dead = true
			w.witness.tell(oracle.Event{Kind: oracle.Ended, Process: h.run, Why: oracle.ByItself})
		})
	})
}

// numberOf returns the number in an order_no.
func numberOf(no string) int {
	n, _ := strconv.Atoi(no[1:])
	return n
}

// anna is the name of the person.
var anna = settle.Person{Name: "anna"}

// intervene lets the i-th person intervene at a random time.
func (w *world) intervene(i int) {
	no := w.orders[w.e.rng.IntN(len(w.orders))]
	acts := [...]func(h *host, no string){w.replay, w.replay, w.resubmit, w.resolve, w.dropLetter, w.cancel}
	act := acts[w.e.rng.IntN(len(acts))]
	if i >= w.cfg.Persons {
		act = w.actOnPage
	}
	w.process("anna-"+no, streamOf(ofPerson, i, 0, 0), w.e.between(0, w.cfg.Trouble+60*time.Second), func(h *host) { act(h, no) })
}

func (w *world) replay(h *host, no string) { w.replayWith(h, no, settle.ReplayOptions{Person: anna}) }
func (w *world) resubmit(h *host, no string) {
	w.replayWith(h, no, settle.ReplayOptions{Person: anna, ResubmitUnknown: true})
}

// replayWith repeats a replay until the broker reports its result, as a person would.
func (w *world) replayWith(h *host, no string, o settle.ReplayOptions) {
	ctx := context.Background()
	if w.e.rng.IntN(2) == 0 {
		o.Deadline = &time.Time{}
	}
	for range 4 {
		l, err := w.letter(h, no)
		if err == nil && l == nil {
			return
		}
		if err == nil {
			var end settle.Replay
			if end, err = h.q.Operator.Replay(ctx, l, o); err == nil {
				w.e.trace.say(w.e, h.name, "replay", no, "letter %d: %s", l.Seq, end)
				return
			}
		}
		w.e.nap(pauseAfter(err))
	}
}

// letter returns one of an order's dead letters; nil = there is none.
func (w *world) letter(h *host, no string) (*settle.Letter, error) {
	all, err := h.q.Ledger.Letters(context.Background(), no)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[w.e.rng.IntN(len(all))], nil
}

// truth returns what the API says of an order.
func (w *world) truth(no string) order.Outcome {
	if w.api.exists(no) {
		return order.OutcomeAccepted
	}
	return order.OutcomeRejected
}

// heard reports whether a person's word is recorded, or has nothing to end any more.
func heard(err error) bool {
	return err == nil || errors.Is(err, settle.ErrNotInDoubt) || errors.Is(err, settle.ErrNoResult)
}

// resolve lets the person look up a doubtful order at the API and record the result.
// She looks after every request in flight has arrived.
func (w *world) resolve(h *host, no string) {
	tried := false // her command ended without an answer, so she repeats it until it has one
	for looks := 0; looks < 4 || tried; looks++ {
		seen, err := h.q.Ledger.Lookup(context.Background(), no)
		if err == nil && seen.Record.Outcome() != order.OutcomeUnknown && !(tried && seen.Record.By == anna.Name) {
			return
		}
		if err != nil || w.api.underway[no] > 0 {
			w.e.nap(30 * time.Second)
			continue
		}
		as := w.truth(no)
		_, err = h.q.Operator.Resolve(context.Background(), no, seen.Record.WriteID, as, anna)
		tried = true
		w.e.trace.say(w.e, h.name, "resolve", no, "as %s: %v", as, err)
		if heard(err) {
			return
		}
		w.e.nap(pauseAfter(err))
	}
}

func (w *world) dropLetter(h *host, no string) {
	ctx := context.Background()
	for range 4 {
		l, err := w.letter(h, no)
		if err == nil && l == nil {
			return
		}
		if err == nil {
			if _, err = h.q.Operator.Drop(ctx, l, anna); err == nil {
				w.e.trace.say(w.e, h.name, "drop", no, "letter %d", l.Seq)
				err = h.q.Operator.Erase(ctx, no, anna)
				w.e.trace.say(w.e, h.name, "erase", no, "%v", err)
				return
			}
		}
		w.e.nap(pauseAfter(err))
	}
}
