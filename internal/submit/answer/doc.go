// Package answer says what a response means: what one attempt is known to have
// done, and what follows for the order and for the pool. It reads and judges; it
// knows no connection, no gate and no signature.
//
//	Rules.Judge      rules.go      the operator's rules (rules_reach.go), then the built-in verdicts (verdict.go)
//	Evidence.Weigh   evidence.go   is it about this order, and what shows that it is an acceptance?
//	RetryAfter       retryafter.go how long the API asks to be left alone
//	Check            check.go      the same for an answer that a person pasted
//
// A body is read once for what it says about the order (findings.go, words.go),
// and parsed as JSON only if a rule asks for it.
//
// Rules come first, in their order; the first that matches gives the verdict.
// A condition that cannot be evaluated for an answer (body.code of a text) is
// not fulfilled. An answer that was cut short is judged only as far as what is
// missing cannot matter: by its status, unless a rule that reads the body might
// have matched. The built-in verdicts take a 2xx for accepted only with a JSON
// object in which nothing contradicts it (words.go), or with an empty body under
// 201 and 204. Any other 2xx is unsure and holds the pool, naming the rule to write.
//
// Then the answer is held against the order (evidence.go). One that names another
// order_no, or that began before the request was written, is unsure and ends its
// connection. An acceptance without a rule must repeat our order_no and say
// success, or be of a kind that was accepted before; the first kind is believed,
// and told where it does not repeat the order_no. Another kind holds the pool.
// Rules have a bound on time and steps (rules_budget.go).
package answer
