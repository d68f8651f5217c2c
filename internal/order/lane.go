package order

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
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

// Turns decides which import feeds the queue next. Lanes take turns by their
// weights, and the imports of one lane take equal turns. So a small import beside
// a large one takes a time that is proportional to its own size, and a lane that
// is empty costs the others nothing.
//
// Anybody who may publish can name any number of lanes. So the lanes that nobody gave a
// weight share the turns of one lane, and their imports take equal turns in it. BulkLane
// has turns of its own.
//
// Turns is stride scheduling: each turn advances a lane's pass by 1/weight, and
// the lane with the lowest pass is next. The zero value is ready for use.
type Turns struct {
	lanes map[string]*laneTurns // by the name that turnOf returns
}

type laneTurns struct {
	pass    float64
	imports []LaneImport // in the order of their next turns
}

// sharedTurn stands for all lanes without a weight. It is the name of no lane.
const sharedTurn = ""

// turnOf returns under which name a lane takes turns.
func turnOf(lane string, weights map[string]int) string {
	if _, weighted := weights[lane]; weighted || lane == BulkLane {
		return lane
	}
	return sharedTurn
}

// LaneImport names one import in one lane.
type LaneImport struct{ Lane, Import string }

// Take returns how many of the next n intents each import may feed. waiting holds
// how many intents each import has ready. weights holds the weight of each lane
// that has one; BulkLane, and the others together, have DefaultWeight. A lane or import that was not ready
// before starts level with the others: waiting longer earns no credit, because a
// burst of credit would keep the others waiting.
func (t *Turns) Take(n int, waiting map[LaneImport]int, weights map[string]int) map[LaneImport]int {
	t.follow(waiting, weights)
	left := make(map[LaneImport]int, len(waiting))
	ready := make(map[string]int, len(t.lanes)) // by the name that takes the turn
	for which, count := range waiting {
		left[which] = count
		ready[turnOf(which.Lane, weights)] += max(count, 0)
	}
	taken, names := make(map[LaneImport]int), t.names()
	for ; n > 0; n-- {
		name, any := t.next(names, ready)
		if !any {
			break
		}
		lane := t.lanes[name]
		which := lane.turn(func(imp LaneImport) bool { return left[imp] > 0 })
		left[which]--
		ready[name]--
		taken[which]++
		lane.pass += 1 / float64(weightOf(name, weights))
	}
	return taken
}

// weightOf returns a lane's weight within its bounds.
func weightOf(lane string, weights map[string]int) int {
	w, known := weights[lane]
	if !known {
		return DefaultWeight
	}
	return min(max(w, 1), MaxWeight)
}

// follow forgets lanes and imports that have nothing ready and adds the new
// ones.
func (t *Turns) follow(waiting map[LaneImport]int, weights map[string]int) {
	level := 0.0
	for name, lane := range t.lanes {
		lane.imports = slices.DeleteFunc(lane.imports, func(imp LaneImport) bool {
			return waiting[imp] <= 0 || turnOf(imp.Lane, weights) != name // it was given a weight, or lost it
		})
		if len(lane.imports) == 0 {
			delete(t.lanes, name)
		}
	}
	for i, name := range t.names() {
		if pass := t.lanes[name].pass; i == 0 || pass < level {
			level = pass
		}
	}
	if t.lanes == nil {
		t.lanes = make(map[string]*laneTurns)
	}
	for _, lane := range t.lanes {
		lane.pass -= level // keeps the numbers small for ever
	}
	known := make(map[LaneImport]bool, len(waiting))
	for _, lane := range t.lanes {
		for _, imp := range lane.imports {
			known[imp] = true
		}
	}
	fresh := make([]LaneImport, 0)
	for which, count := range waiting {
		if count > 0 && !known[which] {
			fresh = append(fresh, which)
		}
	}
	slices.SortFunc(fresh, func(a, b LaneImport) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Import, b.Import))
	})
	for _, which := range fresh {
		name := turnOf(which.Lane, weights)
		if t.lanes[name] == nil {
			t.lanes[name] = &laneTurns{}
		}
		t.lanes[name].imports = append(t.lanes[name].imports, which)
	}
}

// names returns the lanes in the order of their names, so that equal passes give
// the same order every time.
func (t *Turns) names() []string {
	names := make([]string, 0, len(t.lanes))
	for name := range t.lanes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// next returns the name of the lane whose turn it is. any is false if none has anything
// ready.
func (t *Turns) next(names []string, ready map[string]int) (name string, any bool) {
	for _, n := range names {
		if ready[n] > 0 && (!any || t.lanes[n].pass < t.lanes[name].pass) {
			name, any = n, true
		}
	}
	return name, any
}

// turn returns the next import that is ready and moves it to the end. The caller
// knows that one is.
func (l *laneTurns) turn(ready func(LaneImport) bool) LaneImport {
	i := slices.IndexFunc(l.imports, ready)
	name := l.imports[i]
	if i == 0 { // nearly always, and copies nothing
		l.imports = append(l.imports[1:], name)
	} else {
		l.imports = append(slices.Delete(l.imports, i, i+1), name)
	}
	return name
}

// MaxWait is how far ahead of the present time an order may be scheduled. A
// later time is usually a mistyped year.
const MaxWait = 366 * 24 * time.Hour

// pastAllowed is how late a person may be with a time that means "now".
const pastAllowed = time.Minute

// LongPast reports whether a time was over more than a minute before now. A person who
// gives such a time has probably mistyped it. A program may be late.
func LongPast(at, now time.Time) bool { return !at.IsZero() && now.Sub(at) > pastAllowed }

// MissedDeadline says why an order with a deadline could not be sent any more; "" = it could.
// notBefore is the time before which it is not sent. Either may be zero.
func MissedDeadline(deadline, notBefore, now time.Time) string {
	at := deadline.UTC().Format(time.RFC3339)
	switch {
	case deadline.IsZero():
		return ""
	case !deadline.After(now):
		return fmt.Sprintf("%s was %s ago, so every order would expire", at, now.Sub(deadline).Round(time.Second))
	case !deadline.After(notBefore):
		return fmt.Sprintf("%s is not later than %s, before which nothing is sent, so every order would expire", at, notBefore.UTC().Format(time.RFC3339))
	default:
		return ""
	}
}

// notBeforeLayouts are the accepted forms of RFC 3339. Seconds may be missing.
var notBeforeLayouts = []string{time.RFC3339, "2006-01-02T15:04Z07:00"}

// zoneless are forms that name no moment.
var zoneless = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// noColon are forms whose offset has no colon.
var noColon = []string{"2006-01-02T15:04:05-0700", "2006-01-02T15:04-0700", "2006-01-02T15:04:05-07", "2006-01-02T15:04-07"}

// blankForT are forms with a blank in place of the T.
var blankForT = []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"}

// ParseNotBefore reads the time before which an order must not be sent. The
// zone is required: without it, one text names two moments on the day on which
// clocks go back, and a moment that does not exist on the day on which they go
// forward. A time in the past is valid and means "now". The error says what to
// write instead.
func ParseNotBefore(text string, now time.Time) (time.Time, error) {
	for _, layout := range notBeforeLayouts {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if at.Sub(now) > MaxWait {
			return time.Time{}, fmt.Errorf("%q is more than a year ahead", text)
		}
		return at.UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%q %s", Clip(text, maxSeen), notATime(text))
}

// notATime says what is wrong with a text that is not a time.
func notATime(text string) string {
	const example = "2026-11-23T08:00:00+01:00"
	if trimmed := strings.TrimSpace(text); trimmed != text && trimmed != "" {
		return "has a blank before or after the time; remove it"
	}
	for _, layout := range zoneless {
		if _, err := time.Parse(layout, text); err == nil {
			return "has no zone; add Z or an offset, such as " + example
		}
	}
	for _, layout := range noColon {
		if at, err := time.Parse(layout, text); err == nil {
			return "has an offset without a colon; write " + at.Format(time.RFC3339)
		}
	}
	for _, layout := range blankForT {
		if _, err := time.Parse(layout, text); err == nil {
			return "has a blank between date and time; write T there, such as " + example
		}
	}
	for _, layout := range slices.Concat(notBeforeLayouts, zoneless, noColon, blankForT) {
		_, err := time.Parse(layout, text)
		var bad *time.ParseError
		if errors.As(err, &bad) && strings.HasSuffix(bad.Message, "out of range") {
			return "names a time that does not exist" + bad.Message // ": day out of range"
		}
	}
	return "is not an RFC 3339 time such as " + example
}

// CheckRate returns an error for what cannot be the most orders a second, 0 = no limit.
// Without it NaN, which is neither below nor above 0, would be no limit.
func CheckRate(rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 1) {
		return fmt.Errorf("%v is not a number of orders per second", rate)
	}
	return nil
}
