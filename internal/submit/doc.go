// Package submit takes one order to a verdict: it waits for its turn, stamps,
// signs, posts, reads the answer, and tries again, and it says of every attempt
// what is known about its effect, no more. Order numbers, money and queues are
// other packages' affair; HTTP is this one's alone.
//
// # The path of an attempt
//
//	Submit           visit.go      one order's stay: attempt after attempt, until something ends it
//	  Enter          gate          a permit: no block stands, the ramp has room, the rate limit a token
//	  lastChecks     visit.go      deadline, fence, write-ahead note, fence again
//	  stamp, sign    clock.go      made last, strictly later than the order's last timestamp
//	  post           client.go     one request on the wire, at most once (send.go, read.go)
//	  Judge          answer        the operator's rules, then the built-in verdicts
//	  Weigh          answer        is it about this order, and what shows that it is an acceptance?
//	  follow         conclude.go   what it means for the pool: throttle, hold, run of refusals, denied key
//	  Release                      the permit goes back, with what the attempt showed
//	  goOn           budget.go     wait in hand, or go back to the queue with a delay
//
// Two steps are packages of their own: [orderpost/internal/submit/gate] says
// whether an attempt may go out now, [orderpost/internal/submit/answer] says what
// a response means. Neither knows the other, or this one, which joins them.
//
// The report's End and Verdict are the input of order.Decide. History is
// cumulative: attempts, the last timestamp, and the doubt, which an unsure
// attempt sets and only an acceptance or an answer by a `final` rule clears
// (a duplicate leaves it: Decide reads both together).
//
// # Was anything sent?
//
// "retry" claims that an attempt certainly had no effect, so the claim must be
// exact. Two things are known of a request that got no answer:
//
//   - Until a connection is there (name, proxy, TCP, TLS: dial.go, proxy.go,
//     handshake.go), nothing of the order has left this process.
//   - The connection is then the request's own until its answer is read, and the
//     bytes that the socket takes are counted under any TLS (conn.go). None since
//     the request was begun means that it was not sent.
//
// Everything else is unsure. Nothing is ever sent twice: taking a connection,
// writing and reading are separate steps (client.go, send.go, read.go), and
// none of them is repeated. fasthttp gives the protocol, not its client.
//
// A kept connection is looked at before it is used again, without waiting. One
// that has ended, or on which an answer lies that nobody asked for, is closed. On
// TLS that look takes session tickets and key updates off, and finds the part of
// a record (frames.go). What remains is a server that closes in the moment in
// which we write: that shows as "retry" if the write failed, and as "unsure" if
// the kernel took the bytes before the reset came. To make it rare, idle
// connections are closed after ORDERPOST_IDLE_TIMEOUT, 4 s by default, before
// common servers close them (5 s and more).
//
// What cannot be closed is the pause between the last look at the fence and
// the socket write: a process that is stopped there for longer than its lease
// may post an order that another worker has taken over.
//
// # Refusals
//
// A refusal is provisional until the API is seen to create orders (jury.go).
// Submit holds a refused order back until (a) an acceptance or a duplicate of
// any order comes: the refusal is believed; (b) the run of refusals reaches
// REFUSAL_RUN distinct orders: all of them go back to the queue, and the gate
// closes; (c) nothing else is under way for REFUSAL_QUIET, or 15 s have
// passed: it is believed, for there are few. In case (c) a wrong setting can
// cost at most REFUSAL_RUN-1 orders. A 404 or 405 without a rule closes the
// gate at once and goes back; only if that same order gets it again after others
// were created is it taken for a refusal. Resuming by hand after a run says
// that the refusals are right: they are believed until the next acceptance.
//
// # Credentials
//
// The first denial closes the gate. The account is asked with that key after
// PROBE_DELAY. If it answers, one other order tries; if that is denied too, the
// secret is wrong. A pair that fails either way is left for the next one; when
// all have failed the probes back off to one in 5 minutes, and begin again with
// the first. Keys are read again before each probe and every KEY_RELOAD.
//
// A denied order waits until it is known whose fault it was. If another order
// is accepted on the same pair, by an attempt that began after the denial, it
// is asked again; if that happens to it twice, the fault is its own, and it is
// reported as rejected. Once is not enough: an API whose authentication fails
// for a second denies everything that is in flight.
//
// # Budgets
//
// Orders that are in hand wait at a closed gate for GATE_PATIENCE and then go back.
// Waiting for the gate spends no budget: it is taken out of the visit's time,
// and added to History.GateWaitMS, by which the age is reduced. The age counts
// from the first attempt. Time that an order spends in the queue beyond the
// longest delay that a retry may ask for counts as waiting, too.
//
// A visit ends after RETRY_VISIT_ATTEMPTS attempts or RETRY_VISIT_TIME, with
// the delay wanted before the next one. The total budget is judged after an
// attempt that failed on its own: denials, throttles and refusals that were
// called back are counted in History.Attempts but exhaust nobody. A throttle that
// only one order gets is that order's own (throttles.go), and does.
package submit
