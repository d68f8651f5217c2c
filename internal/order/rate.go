package order

import (
	"fmt"
	"math"
)

// CheckRate returns an error for what cannot be the most orders a second, 0 = no limit.
// Without it NaN, which is neither below nor above 0, would be no limit.
func CheckRate(rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 1) {
		return fmt.Errorf("%v is not a number of orders per second", rate)
	}
	return nil
}
