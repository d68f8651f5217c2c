// Package answer judges a response: what the attempt did at the API, and what
// follows for the order and for the pool. It knows no connections, no gate and no
// signatures.
//
//	Rules.Judge      rules.go      the operator's rules (rules_dnf.go), then the built-in verdicts (verdict.go)
//	Evidence.Weigh   evidence.go   is it about this order, and what proves an acceptance?
//	RetryAfter       retryafter.go how long the API asks us to wait
//	Check            check.go      the same for an answer that a person pasted
//
// The package scans a body once for what it says about the order (findings.go,
// words.go). It parses the body as JSON only if a rule needs that.
//
// Rules come first. The first rule that matches gives the verdict. A condition
// that cannot be evaluated for an answer, such as body.code of a plain text, is
// false. An answer that was cut short is judged by its status alone. If a rule
// that reads the body might have matched, the verdict is unsure.
//
// The built-in verdicts accept a 2xx in two cases only: its body is a JSON object
// in which nothing contradicts an acceptance (words.go), or its status is 201 or
// 204 and its body is empty. Any other 2xx is unsure and holds the pool. The hold
// names the rule to write.
//
// Evidence then compares the answer with the order (evidence.go). An answer that
// names another order_no, or that began before the request was written, is unsure
// and ends its connection. An acceptance without a rule must repeat our order_no
// and say success, or be of a kind that was accepted before. The first kind is
// believed. If that kind does not repeat the order_no, the worker logs it.
// Another kind holds the pool.
//
// The evaluation of rules is bounded in time and steps (rules_budget.go).
package answer
