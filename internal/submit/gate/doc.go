// Package gate says whether an attempt may go out now. It is the one place that
// every attempt passes: holds, breaker, ramp, rate limit, probing. It gets what it
// needs as plain values, and knows neither HTTP nor keys nor what an answer means.
//
// Enter gives a [Permit] for one attempt, Release takes it back with a [Signal]:
// what the attempt showed.
//
// Any number of blocks keep the gate closed:
//
//	hold         a person, the program; until released, resumed, or a time
//	throttle     429, or a rule with `throttle`; until the time is up
//	breaker      failed requests; then the account is asked, then one order tries
//	credentials  a denied key; then the account is asked, then one order tries
//	answer       a 2xx that nobody can read; after HoldRetry one order tries
//	refusals     a run of refusals, 404, 405; after HoldRetry one order tries
//
// A trial that fails doubles the time to the next one, up to 16 times (5 min
// for credentials). An open breaker asks the account at a steady pace: it costs
// the API one request without an order. Resume ends holds at once, those by
// answers too, and has breaker and credentials probed now.
//
// Whenever the gate opens, at the start as well, attempts in flight grow from
// one, by one with each answer that settles an order. So they double with each
// round trip, up to the concurrency: a wrong secret or a wrong URL is found out by
// one order, not by sixty-four. A throttle halves them.
//
// While the gate is closed the pool should take no orders (Open, Room, Wait,
// Changed). An order that is in hand waits for Config.Patience.
//
// The gate makes no request itself. Tick says when the account must be asked, and
// Probed what came of it. Who talks to the API reports denied keys (KeySuspected,
// NextKey, NoKeyLeft) and answers that hold the pool (HoldFor, Throttle). The
// blocks that concern the whole fleet can be left to one worker (prober.go).
package gate
