package lookup

import (
	"orderpost/internal/order"
)

// meaning says what an attempt did at the API.
func meaning(v order.Verdict) string {
	switch v {
	case order.Accepted:
		return "the API created the order"
	case order.Duplicate:
		return "the API says that it has this order_no already"
	case order.Rejected:
		return "the API refused the order; it was not created by this attempt"
	case order.Retry:
		return "certainly without effect"
	case order.Unsure:
		return "may have created the order"
	case order.Denied:
		return "the API refused the key and did not read the order"
	default:
		return ""
	}
}

// step is one thing that a person can do, with its command.
type step struct{ text, command string }

// steps says what to do next. The commands contain the order_no, so they can be copied.
func (f *Finding) steps() []step {
	no := quote(f.OrderNo)
	replay := "deadletter replay --order-no " + exactly(f.OrderNo)
	switch {
	case f.Pending && f.Result.Outcome() == order.OutcomeNone:
		return []step{{text: "Nothing: it is in the queue, and waits for a worker or its next attempt."}}
	case f.Pending:
		return []step{{text: "Wait: another intent for this order_no is in the queue. Look again when it is settled."}}
	case f.Result == nil && f.Letter == nil:
		return []step{{text: "Nothing is known here: it was never enqueued, or its result has expired."}}
	case f.Letter != nil && f.Letter.Conflict:
		return []step{
			{text: "The order exists with another body than this letter's. If both are wanted, enqueue this one under an order_no of its own; else forget the letter:",
				command: "deadletter drop --order-no " + exactly(f.OrderNo)},
		}
	case f.Result == nil:
		return []step{{text: "Its result has expired. Ask the API's operator before it is sent again; then:", command: replay}}
	}
	switch o := f.Result.Outcome(); {
	case o == order.OutcomeAccepted:
		return []step{{text: "Nothing: it is done."}}
	case o == order.OutcomeNone:
		return []step{{text: "It has a note, but no intent in the queue: somebody removed that. Enqueue it again."}}
	case o == order.OutcomeCancelled:
		return []step{{text: "Nothing. Enqueue it again if it is wanted after all."}}
	case f.Result.Allowed && o == order.OutcomeUnknown:
		return []step{{text: "A person allowed another attempt, and the replay was cut off. Finish it:", command: replay + " --resubmit-unknown"}}
	case o == order.OutcomeUnknown:
		return f.doubtful(no, replay)
	case f.Letter == nil:
		return []step{{text: "Correct it and enqueue it again under the same order_no, if it is still wanted."}}
	default:
		return f.failed(o, replay)
	}
}

func (f *Finding) doubtful(no, replay string) []step {
	return []step{
		{text: "Ask the API's operator whether the order exists. Do not enqueue it under another order_no before you know."},
		{text: "It exists:", command: "deadletter resolve " + no + " --accepted --note '…'"},
		{text: "It does not, and is not wanted any more:", command: "deadletter resolve " + no + " --rejected --note '…'"},
		{text: "It does not, and is wanted (or the API refuses a duplicate order_no):", command: replay + " --resubmit-unknown"},
	}
}

func (f *Finding) failed(o order.Outcome, replay string) []step {
	var first step
	switch o {
	case order.OutcomeRejected, order.OutcomeInvalid:
		first = step{text: "Correct it and enqueue it again under the same order_no:",
			command: "deadletter export --order-no " + exactly(f.OrderNo) + " > fix.ndjson"}
	case order.OutcomeExpired:
		first = step{text: "If it is still wanted, send it with a new deadline, or with none:", command: replay + " --deadline none"}
	case order.OutcomePoison:
		first = step{text: "It took its workers down. Look at their logs, and use a corrected version before you send it again:", command: replay}
	default:
		first = step{text: "Nothing was created. When the API is well again:", command: replay}
	}
	steps := []step{first}
	if o == order.OutcomeRejected {
		steps = append(steps, step{text: "The order is right, and what was wrong at the API is mended:", command: replay})
	}
	return append(steps, step{text: "It is not wanted any more:", command: "deadletter drop --order-no " + exactly(f.OrderNo)})
}
