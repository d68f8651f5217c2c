package order

import (
	"context"
	"errors"
	"time"
)

// Admission relates an intent to the last record of its order_no (R6). It states
// facts. Each caller decides what follows: the worker for a delivery, the import
// for a row, the replay for a dead letter.
type Admission struct {
	Standing Standing
	Bodies   Bodies
}

// Standing says what the last record says about an intent.
type Standing uint8

// The standings. "Itself" refers to this intent, "Before" to another intent with
// the same order_no.
const (
	// NothingKnown: there is no record.
	NothingKnown Standing = iota
	// SettledItself: this intent has an outcome.
	SettledItself
	// OpenItself: the record is a note about this intent.
	OpenItself
	// OpenBefore: the record is a note about another intent, pending or gone. If it is in
	// doubt, this intent has its body.
	OpenBefore
	// AcceptedBefore: the order exists.
	AcceptedBefore
	// DoubtBefore: it is unknown whether the order exists, and no person allowed
	// this intent.
	DoubtBefore
	// AllowedBefore: it is unknown whether the order exists, and a person allowed
	// this intent, whose body is the one in doubt.
	AllowedBefore
	// FailedBefore: the order certainly does not exist. Another intent may follow.
	FailedBefore
)

// Bodies compares the intent's body with the record's.
type Bodies uint8

// The comparisons.
const (
	// NotComparable: one body is unknown or can never be sent.
	NotComparable Bodies = iota
	// SameBody: the canonical bodies without timestamp are equal.
	SameBody
	// OtherBody: the canonical bodies without timestamp differ.
	OtherBody
)

// Admit compares an intent with the last record of its order_no, which is nil if
// there is none. intentID is empty for an intent that has no id yet. bodyHash is
// empty for a body that can never be sent.
func Admit(last *Record, intentID, bodyHash string) Admission {
	if last == nil {
		return Admission{}
	}
	a := Admission{Bodies: compareBodies(last.BodyHash, bodyHash)}
	outcome, itself := last.Outcome(), last.IntentID == intentID
	switch {
	case last.Settles(intentID):
		a.Standing = SettledItself
	case itself:
		a.Standing = OpenItself
	case outcome == OutcomeAccepted:
		a.Standing = AcceptedBefore
	case last.Doubtful() && last.Allows(intentID) && a.Bodies == SameBody:
		a.Standing = AllowedBefore
	case outcome == OutcomeUnknown, last.Doubtful() && a.Bodies != SameBody:
		a.Standing = DoubtBefore
	case outcome == OutcomeNone:
		a.Standing = OpenBefore
	default:
		a.Standing = FailedBefore
	}
	return a
}

func compareBodies(a, b string) Bodies {
	switch {
	case a == "" || b == "":
		return NotComparable
	case a == b:
		return SameBody
	default:
		return OtherBody
	}
}

// ErrLeaseLost means that another worker may hold the claim on the order (R7). It is
// the cause of the attempt's context and the error of the fence.
var ErrLeaseLost = errors.New("the claim on this order may have passed to another worker")

// Submission is the work on one delivery of an order: one or more attempts. The
// settle protocol hands it to the submitter, which returns a [Report].
type Submission struct {
	Order *Order
	// History covers all earlier submissions.
	History History
	// Deadline is the time after which the order is not sent; zero = none.
	Deadline time.Time
	// Traceparent is the order's W3C trace header.
	Traceparent string
	// Allowed says that a person allowed another attempt although the order is in
	// doubt and the policy is Park.
	Allowed bool
	// LookOnly says that the order may be looked up, and not posted: it ends with EndHandBack
	// before an attempt.
	LookOnly bool
	// AbsentFor is how long this process has known, by its monotonic clock, of the lookup that
	// History.AbsentAt names.
	AbsentFor time.Duration
	// Fence is called directly before each attempt. An error ends the submission
	// before a request is sent: with EndLeaseLost for ErrLeaseLost, otherwise with
	// EndHandBack. Fence may be nil.
	Fence func(ctx context.Context) error
	// Cancelled is called with the history by now, before the wait at the gate and directly
	// before each attempt. It reports whether a person withdrew the order, and returns a
	// channel that is closed when the answer may be another one. A withdrawn order ends
	// with EndCancelled. Cancelled may be nil.
	Cancelled func(h History) (bool, <-chan struct{})
	// WriteAhead is set under the policy Park. It is called before each attempt with
	// the history that includes this attempt, and returns once the broker has confirmed
	// what tells a later delivery about it. An error ends the submission before a request is sent, and the
	// attempt is not counted: with EndLeaseLost for ErrLeaseLost, otherwise with
	// EndHandBack.
	WriteAhead func(ctx context.Context, h History) error
}

// MaxAhead is how far an order's last timestamp may lie in the future before
// [NextTimestamp] takes it for one of a wrong clock. The clocks of a fleet differ by
// less, also where they follow the API's.
const MaxAhead = 2 * time.Second

const (
	// rewindStep is the distance between two timestamps with the same count of rewinds.
	rewindStep = 100
	// maxRewinds is the number of times that an order's timestamps can go back.
	maxRewinds = 10
)

// NextTimestamp returns the timestamp of an order's next attempt, in milliseconds. last is
// the order's last timestamp, 0 if it has none, and now is the present time.
//
// The timestamp is the present time, and never that of an earlier attempt. Where the last
// one lies in the future by up to [MaxAhead], the next one follows it. Where it lies
// further ahead, a clock was wrong, and the timestamps go back to the present.
//
// The last digits of a timestamp count how often its order went back: a first digit other
// than 9 says never, 09 once, 19 twice, and so on. Between two rewinds timestamps only
// grow, and two of different counts differ in their digits. So no two attempts share one,
// however the clocks jump, and the last timestamp alone says which were used. After
// ten rewinds they only grow.
func NextTimestamp(last, now int64) int64 {
	n := Rewinds(last)
	if n < maxRewinds && last-now > MaxAhead.Milliseconds() {
		n, last = n+1, 0 // no attempt has this count yet
	}
	if n == 0 {
		return withoutRewind(max(now-withNine(now), last+1))
	}
	digits := int64(n-1)*10 + 9
	present := now - mod(now-digits, rewindStep)
	return max(present, last+rewindStep-mod(last-digits, rewindStep))
}

// Rewinds returns how often the timestamps of an order had gone back when it got this one.
func Rewinds(timestamp int64) int {
	if withNine(timestamp) == 0 {
		return 0
	}
	return int(timestamp/10%10) + 1
}

// LaterTimestamp returns which of two timestamps of an order was used later: that of more
// rewinds, else the greater one.
func LaterTimestamp(a, b int64) int64 {
	if ra, rb := Rewinds(a), Rewinds(b); ra != rb {
		if ra > rb {
			return a
		}
		return b
	}
	return max(a, b)
}

// SkipTimestamps returns a timestamp so far behind last that n attempts may have used
// those in between.
func SkipTimestamps(last int64, n int) int64 {
	step := int64(2) // more than those without a 9
	if Rewinds(last) > 0 {
		step = rewindStep
	}
	return last + (int64(n)*step+rewindStep-1)/rewindStep*rewindStep // the digits stay
}

// withNine returns 1 for a timestamp whose last digit is 9.
func withNine(t int64) int64 {
	if mod(t, 10) == 9 {
		return 1
	}
	return 0
}

// withoutRewind returns t, or the next millisecond if t ends with 9.
func withoutRewind(t int64) int64 { return t + withNine(t) }

// mod is the remainder of a division that rounds down.
func mod(a, b int64) int64 { return (a%b + b) % b }
