package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// doorPrefix begins the keys of doors: door.<kind>.<slot>.
	doorPrefix = "door."
	// doorSlots is how many processes of one kind can show themselves. Their keys are few,
	// because nobody but a worker may remove a key for good.
	doorSlots = 64
	// doorEvery is how often a process shows itself, and DoorTerm how long it counts as
	// there after that.
	doorEvery = 2 * time.Second
	DoorTerm  = 10 * time.Second
	// doorRateTime is the time over which Door.Rate is measured, at least.
	doorRateTime = 10 * time.Second
)

// The kinds of doors.
const (
	DoorGateway = "gateway" // takes orders over HTTP
	DoorNotify  = "notify"  // posts outcomes to a receiver
	DoorWatch   = "watch"   // imports the files of a folder
)

// Door is what a process tells people about itself that lets orders in, or outcomes out.
// No program decides anything by it.
type Door struct {
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	Since   time.Time `json:"since"`
	Version string    `json:"version"`
	// Rate is what it did per second lately: orders that clients brought, rows of files that
	// were stored, or events that the receiver took.
	Rate float64 `json:"rate"`
	// Sends is set for the one process of the kind notify that sends.
	Sends bool `json:"sends,omitempty"`
	// Backlog is how many places of the results the receiver does not have.
	Backlog uint64 `json:"backlog,omitempty"`
	// Problem is why it does nothing at the moment.
	Problem string `json:"problem,omitempty"`
	// SeenAt is the broker's time of the last sign of life.
	SeenAt time.Time `json:"-"`

	// Done counts what Rate measures, since the process began.
	Done uint64 `json:"-"`
}

// Doors returns the doors that are there, by kind and name. Without a time of the broker,
// see Look, none is.
func (v *View) Doors() []Door {
	var there []Door
	for _, d := range v.doors {
		if isThere(v.Now, d.SeenAt) {
			there = append(there, d)
		}
	}
	slices.SortFunc(there, func(a, b Door) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return there
}

// isThere reports whether a process that shows itself every doorEvery did so lately, by the broker's
// time: also one whose last time is ahead, since the clock was put back, did not.
func isThere(now, seenAt time.Time) bool { return now.Sub(seenAt).Abs() <= DoorTerm }

// readDoor reads a door's entry. ok is false for one that was left.
func readDoor(e queue.Entry) (d Door, ok bool) {
	if json.Unmarshal(e.Value, &d) != nil { // a newer version wrote it
		kind, _, _ := strings.Cut(strings.TrimPrefix(e.Key, doorPrefix), ".")
		d = Door{Kind: kind, Name: e.Key, Version: "not understood by this version"}
	}
	d.SeenAt = e.At
	return d, d.Name != ""
}

// ShowDoor shows a door to people until ctx ends. describe gives it as it is now. What goes
// wrong is logged and tried again: nothing depends on it.
func (c *Control) ShowDoor(ctx context.Context, log zerolog.Logger, describe func() Door) {
	s := &doorSign{control: c}
	for {
		if err := s.show(ctx, describe()); err != nil && ctx.Err() == nil {
			log.Debug().Err(err).Msg("people are not shown this process at the moment (orderpost fleet)")
		}
		if settle.Sleep(ctx, doorEvery) != nil {
			break
		}
	}
	if s.key != "" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = c.bucket.Swap(ctx, s.key, Door{}, s.revision) // else the slot is free in DoorTerm
	}
}

// doorSign is one process's slot.
type doorSign struct {
	control  *Control
	key      string // "" = it has none yet
	revision uint64
	marks    []doorMark
}

// doorMark is what a door had done at a moment.
type doorMark struct {
	at   time.Time
	done uint64
}

// show writes the door into its slot, or takes a free one.
func (s *doorSign) show(ctx context.Context, d Door) (err error) {
	d.Rate = s.rate(d)
	if s.key == "" {
		if s.key, s.revision, err = s.control.freeSlot(ctx, d.Kind); err != nil {
			s.key = ""
			return err
		}
	}
	revision, err := s.control.bucket.Swap(ctx, s.key, d, s.revision)
	if errors.Is(err, settle.ErrStale) {
		s.key = "" // another process has it
		return err
	}
	if err == nil {
		s.revision = revision
	}
	return err
}

// rate returns how much was done per second since the last mark that is doorRateTime old.
func (s *doorSign) rate(d Door) float64 {
	now := doorMark{time.Now(), d.Done}
	s.marks = append(s.marks, now)
	for len(s.marks) > 2 && now.at.Sub(s.marks[1].at) >= doorRateTime {
		s.marks = s.marks[1:]
	}
	first := s.marks[0]
	if took := now.at.Sub(first.at).Seconds(); took > 0 {
		return float64(now.done-first.done) / took
	}
	return 0
}

// freeSlot finds a slot in which no process is, and its revision.
func (c *Control) freeSlot(ctx context.Context, kind string) (key string, revision uint64, err error) {
	entries, err := c.bucket.Last(ctx, doorPrefix+kind+".*")
	if err != nil {
		return "", 0, err
	}
	now, err := c.bucket.Now(ctx)
	if err != nil {
		return "", 0, err
	}
	taken := make(map[string]queue.Entry, len(entries))
	for _, e := range entries {
		taken[e.Key] = e
	}
	for slot := range doorSlots {
		key := fmt.Sprintf("%s%s.%d", doorPrefix, kind, slot)
		e, is := taken[key]
		if !is {
			return key, 0, nil
		}
		if _, there := readDoor(e); !there || !isThere(now, e.At) {
			return key, e.Revision, nil
		}
	}
	return "", 0, fmt.Errorf("%d processes of the kind %s show themselves already", doorSlots, kind)
}
