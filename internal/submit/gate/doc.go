// Package gate decides whether an attempt may go out now. Every attempt passes
// through its [Gate]: holds, circuit breaker, ramp, rate limit, probing. The
// package takes plain values. It knows neither HTTP nor keys nor the meaning of
// an answer.
//
// [Gate.Enter] returns a [Permit] for one attempt. [Permit.Release] returns the
// permit with a [Signal], which says what the attempt showed.
//
// The gate is closed while at least one block stands:
//
//	hold         a person, the program; until released, resumed, or a time
//	throttle     429, or a rule with `throttle`; until the time is up
//	breaker      failed requests; then the account is asked, then one order tries
//	credentials  a denied key; then the account is asked, then one order tries
//	answer       an answer that only a rule can settle; after HoldRetry one order tries
//	refusals     a run of refusals, 404 and the like; after HoldRetry one order tries
//
// Each failed trial doubles the time to the next one, up to 16 times the first
// (5 min for credentials). So does each failed probe of the account, for an open
// breaker up to 4 times the first, because a probe costs the API less than an order.
// Resume ends holds at once and probes breaker and credentials now.
//
// The ramp limits the attempts in flight. It starts at one whenever the gate
// opens and grows by one with each conclusive answer, up to the concurrency. It
// thus doubles with each round trip. One order finds a wrong secret or a wrong
// URL, not sixty-four. A throttle halves the ramp.
//
// The pool should pull no orders while the gate is closed (Open, Capacity, Wait,
// Changed). An order already in hand waits for at most Config.Patience.
//
// The gate makes no requests. Tick says when to probe the account, and the
// caller reports the result with Probed. The caller also reports denied keys
// (KeySuspected, KeyDenied, AllKeysDenied) and answers that stop the pool
// (HoldByAnswer, Throttle).
package gate
