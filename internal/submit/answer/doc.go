// Package answer judges a response: what the attempt did at the API, and what
// follows for the order and for the pool. It knows no connections, no gate and no
// signatures.
//
//	Answer           answer.go     the response, as far as it was read
//	Rules.Judge      rules.go      the operator's rules (rules_condition.go, rules_implied.go, rules_reload.go), then the built-in verdicts (statuses.go, verdict.go)
//	Evidence.Weigh   evidence.go   is it about this order, and does the body bear the status out?
//	RetryAfter       retryafter.go how long the API asks us to wait
//	Answer.Said      said.go       its code and message, to count by
//	Check            check.go      the same for an answer that a person pasted
//
// The package scans a body once for what it says about the order (findings.go,
// words.go, texts.go). It parses the body as JSON only if a rule needs that.
//
// Rules come first. The first rule that matches gives the verdict. A condition
// that cannot be evaluated for an answer, such as body.code of a plain text, is
// false. An answer that was cut short is judged by its status alone. If a rule
// that reads the body might have matched, the verdict is unsure.
//
// The built-in verdicts accept 200, 201, 202 and 204 in two cases only: its body is a JSON object
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
// A duplicate needs a body that says that the order exists, or the evidence of an
// acceptance, because after an attempt in doubt it becomes one. A refusal must not say
// that the order exists. Otherwise the answer is unsure and holds the pool. What is
// left for rules alone is listed in docs/rules.md, and fuzzed in package submit.
//
// A condition costs at most a few passes over the answer: whatever could cost more is
// refused when the file is read (rules_condition.go).
package answer
