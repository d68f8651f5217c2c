package simulation

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schedule names a schedule: a seed, and what was changed in it. Its text repeats it.
type Schedule struct {
	Seed  uint64
	Edits []Edit
	// Old is for seeds from before there were edits: all random numbers come from one
	// stream, and newer kinds of faults do not occur. Replicas says that such a
	// schedule has three.
	Old, Replicas bool
	// Corrections says that the schedule is about corrections of an order in doubt.
	Corrections bool
}

// Edit is one change of a schedule.
type Edit struct {
	Op     editOp
	Stream streamID // of a drop
	At     uint32   // the ordinal of the dropped fault; 0 = the stream's owner
	Field  string   // of the plan
	Value  float64
}

type editOp uint8

// The kinds of edits.
const (
	// editDrop: a fault, an order, a submission or a person is left out.
	editDrop editOp = iota
	// editPlan: a setting of the plan.
	editPlan
)

// String returns the schedule's text, such as "7 -worker.0.0.0!3 -person.1.0.0 Crashes=1".
func (s Schedule) String() string {
	var b strings.Builder
	switch {
	case s.Old && s.Replicas:
		b.WriteString("old3:")
	case s.Old:
		b.WriteString("old:")
	case s.Corrections:
		b.WriteString("corrections:")
	}
	b.WriteString(strconv.FormatUint(s.Seed, 10))
	for _, d := range s.Edits {
		b.WriteByte(' ')
		b.WriteString(d.String())
	}
	return b.String()
}

// String returns the edit's text.
func (d Edit) String() string {
	switch {
	case d.Op == editPlan:
		return d.Field + "=" + strconv.FormatFloat(d.Value, 'g', -1, 64)
	case d.At == 0:
		return "-" + d.Stream.String()
	default:
		return fmt.Sprintf("-%s!%d", d.Stream, d.At)
	}
}

// ParseSchedule reads the text of a schedule.
func ParseSchedule(text string) (s Schedule, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return s, errors.New("empty schedule: want a seed and edits")
	}
	number := words[0]
	if rest, ok := strings.CutPrefix(number, "old3:"); ok {
		s.Old, s.Replicas, number = true, true, rest
	} else if rest, ok := strings.CutPrefix(number, "old:"); ok {
		s.Old, number = true, rest
	} else if rest, ok := strings.CutPrefix(number, "corrections:"); ok {
		s.Corrections, number = true, rest
	}
	if s.Seed, err = strconv.ParseUint(number, 10, 64); err != nil {
		return s, fmt.Errorf("schedule %q: seed: %w", text, err)
	}
	for _, word := range words[1:] {
		d, err := parseEdit(word)
		if err != nil {
			return s, fmt.Errorf("schedule %q: %w", text, err)
		}
		s.Edits = append(s.Edits, d)
	}
	if s.Old && len(s.Edits) > 0 {
		return s, fmt.Errorf("schedule %q: an old schedule takes no edits", text)
	}
	return s, nil
}

func parseEdit(word string) (d Edit, err error) {
	switch word[0] {
	case '-':
		d.Op = editDrop
		name, at, numbered := strings.Cut(word[1:], "!")
		if d.Stream, err = parseStream(name); err == nil && numbered {
			d.At, err = parse32(at)
		}
	default:
		d.Op = editPlan
		name, value, _ := strings.Cut(word, "=")
		d.Field = name
		if d.Value, err = strconv.ParseFloat(value, 64); err == nil {
			err = new(plan).set(name, d.Value)
		}
	}
	if err != nil {
		return d, fmt.Errorf("edit %q: %w", word, err)
	}
	return d, nil
}

func parse32(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// with returns the schedule with one more edit. Its edits are its own.
func (s Schedule) with(d Edit) Schedule {
	s.Edits = append(slices.Clip(slices.Clone(s.Edits)), d)
	return s
}

// dropped reports whether an edit leaves this fault of a stream out; 0 = its owner.
func (s *Schedule) dropped(id streamID, ordinal uint32) bool {
	for i := range s.Edits {
		if d := &s.Edits[i]; d.Op == editDrop && d.Stream == id && d.At == ordinal {
			return true
		}
	}
	return false
}

// get returns a setting by its name.
func (p *plan) get(name string) (float64, bool) {
	if rest, ok := strings.CutPrefix(name, "APIFaults."); ok {
		if i, err := strconv.Atoi(rest); err == nil && i >= 0 && i < len(p.APIFaults) {
			return p.APIFaults[i], true
		}
		return 0, false
	}
	switch f := reflect.ValueOf(p).Elem().FieldByName(name); {
	case !f.IsValid():
		return 0, false
	case f.CanInt():
		return float64(f.Int()), true
	case f.CanUint():
		return float64(f.Uint()), true
	case f.CanFloat():
		return f.Float(), true
	default:
		return 0, false
	}
}

// set sets a setting by its name.
func (p *plan) set(name string, value float64) error {
	v := reflect.ValueOf(p).Elem()
	if rest, ok := strings.CutPrefix(name, "APIFaults."); ok {
		i, err := strconv.Atoi(rest)
		if err != nil || i < 0 || i >= len(p.APIFaults) {
			return fmt.Errorf("no setting %q", name)
		}
		p.APIFaults[i] = value
		return nil
	}
	f := v.FieldByName(name)
	switch {
	case !f.IsValid():
		return fmt.Errorf("no setting %q", name)
	case f.CanInt():
		f.SetInt(int64(value))
	case f.CanUint():
		f.SetUint(uint64(value))
	case f.CanFloat():
		f.SetFloat(value)
	default:
		return fmt.Errorf("setting %q cannot be set", name)
	}
	return nil
}
