package status

import (
	"fmt"
	"slices"
	"strings"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Step is one thing that a person can do about an order.
type Step struct {
	Text string
	// Command is the command that does it, with the order_no quoted for a shell; ""
	// if there is none.
	Command string
	// Act is what does it on a page of the order's dead letter: replay, lookup, resolve, drop or export; "" if there is none.
	Act string
}

// Advice says what to do next about the order of this name. There is always at
// least one step. No step has a command if no shell can be given the name.
func (f Found) Advice(name string) []Step {
	steps := f.advice(name)
	if f.Waiting > 0 && !f.Pending && f.Record.ClaimsNotCreated() {
		steps = append(steps, Step{Text: fmt.Sprintf("It may be enqueued again already: the waiting room holds %d. This looks there, too:", f.Waiting), Command: "orderpost order " + ShellWord(name)})
	}
	if strings.ContainsRune(name, 0) {
		for i := range steps {
			if steps[i].Command != "" {
				steps[i].Command, steps[i].Text = "", strings.TrimSuffix(steps[i].Text, ":")+". The order_no has a zero byte, which no command line can hold: use the console."
			}
		}
	}
	return steps
}

func (f Found) advice(name string) []Step {
	no, exact := ShellWord(name), ShellWord(Exactly(name))
	resolve := "orderpost deadletter resolve " + no
	if f.Record != nil && f.Record.WriteID != "" {
		resolve += " --seen " + ShellWord(f.Record.WriteID)
	}
	replay := Step{Command: "orderpost deadletter replay --order-no " + exact, Act: "replay"}
	drop := Step{Command: "orderpost deadletter drop --order-no " + exact, Act: "drop"}
	with := func(s Step, text, flags string) Step {
		s.Text, s.Command = text, s.Command+flags
		return s
	}
	switch {
	case f.Pending && f.Record.Outcome() == order.OutcomeNone && f.NothingSent != "":
		return []Step{{Text: "It is in the queue, and " + strings.TrimSuffix(f.NothingSent, ".") + "."}}
	case f.Pending && f.Record.Outcome() == order.OutcomeNone:
		return []Step{{Text: "Nothing: it is in the queue, and waits for a worker or its next attempt."}}
	case f.Pending:
		return []Step{{Text: "Wait: another intent for this order_no is in the queue. Look again when it is settled."}}
	case f.Record == nil && f.Waiting > 0:
		return []Step{{Text: fmt.Sprintf("No result and no intent in the queue. It may be in the waiting room, which holds %d; this looks there, too:", f.Waiting), Command: "orderpost order " + no}}
	case f.Record == nil:
		return []Step{{Text: "Nothing is known here: it was never enqueued, or its result has expired."}}
	}
	switch o := f.Record.Outcome(); {
	case o == order.OutcomeAccepted && len(f.Letters) > 0:
		return []Step{with(drop, "The order exists with another body than this letter's. If both are wanted, enqueue this one under an order_no of its own; else forget the letter:", "")}
	case o == order.OutcomeAccepted:
		return []Step{{Text: "Nothing: it is done."}}
	case o == order.OutcomeNone && f.Record.Doubtful():
		return []Step{{Text: "An attempt may have created it, and its intent left the queue without an outcome: a stream was lost, or somebody removed it. Ask the API's operator whether the order exists, or enqueue it again: by default it is sent again, and stays in doubt until the API or a person ends that."}}
	case o == order.OutcomeNone:
		return []Step{{Text: "No attempt created it, and its intent left the queue without an outcome: a stream was lost, or somebody removed it. Enqueue it again."}}
	case o == order.OutcomeCancelled && len(f.Letters) > 0:
		return []Step{with(replay, "A correction or replay was withdrawn. To send the order of the dead letter after all:", ""), with(drop, notWanted, "")}
	case o == order.OutcomeCancelled:
		return []Step{{Text: "Nothing. Enqueue it again if it is wanted after all."}}
	case o == order.OutcomeUnknown && f.Record.AllowedFor != "" && !settle.AsksOnly(f.Record.AllowedFor) && f.has(func(l *settle.Letter) bool { return settle.LetterReplayed(f.Record.AllowedFor) == l.Seq }):
		return []Step{with(replay, "A person allowed another attempt, and the replay was cut off. Finish it:", " --resubmit-unknown")}
	case o == order.OutcomeUnknown && f.has(func(l *settle.Letter) bool { return f.Record.Refused(l.Seq) != nil }):
		return []Step{
			{Text: "Ask the API's operator whether the order exists. A dead letter is about a correction, which was not sent and can be replayed only if it does not exist."},
			{Text: "It exists:", Command: resolve + " --accepted --note '…'", Act: "resolve"},
			{Text: "It does not:", Command: resolve + " --rejected --note '…'", Act: "resolve"},
			with(replay, "Then, to send the correction:", ""),
		}
	case o == order.OutcomeUnknown:
		return []Step{
			{Text: "Ask the API's operator whether the order exists. Do not enqueue it under another order_no before you know."},
			{Text: "Where the rules say how the API is asked (lookup), have the workers ask it:", Command: "orderpost deadletter lookup --order-no " + exact, Act: "lookup"},
			{Text: "It exists:", Command: resolve + " --accepted --note '…'", Act: "resolve"},
			{Text: "It does not, and is not wanted any more:", Command: resolve + " --rejected --note '…'", Act: "resolve"},
			with(replay, "It does not, and is wanted (or the API refuses a duplicate order_no):", " --resubmit-unknown"),
		}
	case len(f.Letters) == 0:
		return []Step{{Text: "Correct it and enqueue it again under the same order_no, if it is still wanted."}}
	case o == order.OutcomeRejected, o == order.OutcomeInvalid:
		steps := []Step{{Text: "Correct it and enqueue it again under the same order_no:", Command: "orderpost deadletter export --order-no " + exact + " > fix.ndjson", Act: "export"}}
		if o == order.OutcomeRejected {
			steps = append(steps, with(replay, "The order is right, and what was wrong at the API is mended:", ""))
		}
		return append(steps, with(drop, notWanted, ""))
	case o == order.OutcomeExpired:
		return []Step{with(replay, "If it is still wanted, send it with a new deadline, or with none:", " --deadline none"), with(drop, notWanted, "")}
	case o == order.OutcomePoison:
		return []Step{with(replay, "It took its workers down. Look at their logs, and use a corrected version before you send it again:", ""), with(drop, notWanted, "")}
	default:
		return []Step{with(replay, "Nothing was created. When the API is well again:", ""), with(drop, notWanted, "")}
	}
}

// has reports whether one of the order's letters is such.
func (f Found) has(such func(*settle.Letter) bool) bool { return slices.ContainsFunc(f.Letters, such) }

const notWanted = "It is not wanted any more:"

// Exactly returns the [Pattern] that matches only this order number.
func Exactly(orderNo string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(orderNo)
}
