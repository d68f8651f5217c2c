// Package submit posts one order until it has a verdict. It waits for permission,
// stamps, signs, posts, reads the answer and tries again, and it reports exactly what
// is known about the effect of each attempt. It knows neither queues nor records.
//
// # The path of an attempt
//
//	Submit             submission.go  attempt after attempt, until something ends the submission
//	  Enter            gate           a permit: no block stands, the ramp has room, the rate limit has a token
//	  lastChecks       submission.go  deadline, fence, write-ahead note, fence again
//	  stamp, sign      clock.go       last, with a timestamp that the order never had
//	  Post             http1          one request, sent at most once
//	  Judgement        answer         the operator's rules, the status, and whether the body bears it out
//	  applyToPool      conclude.go    throttle, hold, run of refusals, denied key
//	  Release          gate           returns the permit, with what the attempt showed
//	  retryOrReturn    conclude.go    wait and try again, or return the order to the queue (budget.go)
//
// Three steps are packages of their own. [orderpost/internal/submit/gate] decides whether
// an attempt may go out now. [orderpost/internal/submit/http1] sends its request, and is the
// only package that speaks HTTP with the API. [orderpost/internal/submit/answer] decides
// what a response means. None knows this package.
//
// The report's End and Verdict are the input of order.Decide. The history is
// cumulative: the attempts, the last timestamp, and the doubt. An unsure attempt sets
// the doubt. An acceptance, an answer by a final rule, a lookup, and rules that explain an answer
// which was kept clear it. A duplicate leaves it, because Decide needs both.
//
// # Was anything sent?
//
// The verdict retry claims that an attempt certainly had no effect, so the claim must
// be exact. It is given to a request without an answer only if there was no connection
// yet, or its socket took no byte: see [orderpost/internal/submit/http1]. Every other
// request without an answer is unsure. Idle connections are closed after
// ORDERPOST_IDLE_TIMEOUT, by default 4 s, and common servers close them after 5 s or more.
//
// One of the gaps that R7 admits: between the last check of the fence and the write to the
// socket, the process may be stopped for longer than its lease, and may then post an
// order that another worker has taken over.
//
// # Refusals
//
// A refusal is provisional until the API is seen to create orders (refusals.go). Submit
// holds a refused order back until one of these happens:
//
//   - Any order is accepted or a duplicate: the refusal is believed.
//   - The run of refusals reaches ORDERPOST_REFUSAL_RUN different orders: all of them go back to
//     the queue, and the gate shuts.
//   - No other submission is active for 2 s, or 15 s have passed: the refusal
//     is believed, because there are few. A wrong setting then costs at most
//     ORDERPOST_REFUSAL_RUN less one orders.
//
// A refusal that goes back to the queue and came from a rule leaves doubt: the rule may be
// wrong. Its answer is kept, and the present rules judge it before the next attempt and
// before the next refusal is believed (recalled.go). A duplicate answer to such an order
// ends no run, but shows that the rule is wrong.
//
// A 404, 405, 410, 421 or 426 that no rule covers shuts the gate at once, and the order
// goes back. It counts as a refusal only if the same order gets it again after the API
// created others. A person who resumes after a run confirms the refusals: further ones are
// believed for 15 minutes, or until the next such hold.
//
// # Lookups
//
// Where the rules file says how, an order in doubt is neither parked nor posted again: the API is asked for it
// (lookup.go), through the gate, with at most a tenth of the slots and of the rate. An order that no answer
// decides goes back to the queue with a delay, until its total age is over.
//
// # Credentials
//
// The first denial shuts the gate. After a second the worker asks for the account
// with the same key. If the API answers, one other order is tried. If that order is
// denied too, the secret is wrong. A pair that fails either way is bad, and the next
// one is used. When all are bad, the worker starts again with the first, and the probes
// back off to one in 5 minutes. Keys are reloaded before each probe and every 15 s.
//
// A denied order waits until it is known what is at fault (faults.go). If an attempt with
// another order that began after the denial is accepted on the same pair, the denied order
// is tried again. After two such denials the order itself is at fault, and its verdict is
// rejected. One is not enough: an API whose authentication fails for a second denies
// every request in flight.
//
// # Time
//
// A denial of a timestamp that the API's clock does not explain is about the clock
// (conclude.go). The order is tried again with another timestamp, or goes back to the
// queue, and the block clock shuts this worker's gate until the clock is right. Such a
// denial counts against neither the key nor the order. While the two clocks are known to
// differ, deadlines are judged by the API's (clock.go).
//
// # Budgets
//
// An order in hand waits at a closed gate for 10 s and then goes back. Waits at
// the gate spend no budget: they do not count as time of the submission, and
// History.GateWaitMS subtracts them from the age, which counts from the first attempt.
// Time in the queue beyond the longest delay of a retry counts as waiting, too.
//
// A submission ends after 5 attempts or 30 s (see [DefaultTuning]), and says
// after which delay the next one may begin. Only an attempt that failed by itself can
// use up the total budget. Denials, throttles and recalled refusals count as attempts
// but exhaust no order. A throttle that only one order gets is its own failure
// (faults.go).
//
// # The other files
//
//	config.go, account.go          the API's address and limits, GET of the account
//	keys.go, keyring.go            the key pairs, which one is in use, how one is named
//	submit.go                      what a Submitter needs, and whom it tells
package submit
