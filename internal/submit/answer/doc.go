// Package answer judges a response: what the attempt did at the API, and what
// follows for the order and for the pool. It knows no connections, no gate and no
// signatures.
//
//	Answer           answer.go    the response, as far as it was read; how long the API asks us to wait
//	Judge            verdict.go   the decision, from top to bottom: the operator's rules, the status, and whether the body bears it out
//	examine          body.go      one scan of a body for what it says about the order
//	                 members.go   the names and words that count, and what each says
//	holdReason       proposal.go  the rule that would end a hold
//	Rules            rules.go     the rules file (rules_condition.go, rules_implied.go)
//	Rules.Kept       keep.go      members of answers that become fields of results
//	Lookup           lookup.go    how the API is asked about an order in doubt, and what its answers mean
//	Answer.Said      said.go      an answer's code and message, to count by
//	Check            check.go     the same for an answer that a person pasted
//
// Rules come first. The first rule that matches gives the verdict. A condition
// that cannot be evaluated for an answer, such as body.code of a plain text, is
// false. An answer that was cut short is judged by its status alone. If a rule
// that reads the body might have matched, the verdict is unsure.
//
// Without a rule, only members for programs or our order_no show that an order was
// created or exists. Texts for people never settle an order. They can hold it, and they
// shape the rule that the hold proposes. What is left for rules alone is listed in
// docs/rules.md, and fuzzed in package submit.
//
// A condition costs at most a few passes over the answer: whatever could cost more is
// refused when the file is read (rules_condition.go).
package answer
