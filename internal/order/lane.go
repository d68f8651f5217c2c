package order

import (
	"fmt"
	"regexp"
)

// BulkLane is the lane of imports that name no other.
const BulkLane = "bulk"

// DefaultWeight is the weight of a lane that has no setting.
const DefaultWeight = 1

// MaxWeight bounds the weight of a lane. A lane with a larger share than this
// would leave the others nothing that anybody could measure.
const MaxWeight = 1000

var laneName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// CheckLane returns an error for a text that cannot be the name of a lane. A
// lane is one token of a subject. "at" is the token that begins the subjects of
// timed intents.
func CheckLane(name string) error {
	if !laneName.MatchString(name) {
		return fmt.Errorf("%q is not a lane: give 1 to 32 letters, digits, _ and -", Clip(name, maxSeen))
	}
	if name == "at" {
		return fmt.Errorf("%q cannot be a lane: the word begins the subjects of intents with a time", name)
	}
	return nil
}
