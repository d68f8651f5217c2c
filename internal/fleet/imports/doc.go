// Package imports is what processes share about imports and approvals through the fleet's bucket: how far an import
// came, who holds it, who withdrew it, what needs a second person and who approved it.
//
//	imports.go       what is remembered of an import, and how far it came
//	feeding.go       which process feeds the queue, and what it knows of holds and approvals
//	hold.go          keep the waiting intents of an import where they are
//	cancel.go        withdraw an import or an order (R15)
//	approvalrule.go  the rule that says what needs a second person
//	approval.go      what waits for whom, and who approved it
//	sums.go          exact sums of the numbers in orders
//	assessment.go    what of an import an approval is about
package imports
