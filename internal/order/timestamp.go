package order

import "time"

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
