package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
)

const (
	// alertsEvery is how often the sender looks for what fleet.blocked and person.needed tell.
	alertsEvery = 5 * time.Second
	// blockedAfter is how long the fleet must post nothing, as long as most alerts wait
	// (deployments/prometheus/alerts.yaml).
	blockedAfter = time.Minute
	// alertGap is the least time between two events of one of these types.
	alertGap = 5 * time.Minute
	// lossTime bounds the look at what the broker lost.
	lossTime = 5 * time.Second
)

// pace is alertsEvery, blockedAfter and alertGap; a test shortens them.
type pace struct{ look, after, gap time.Duration }

// blockedTold is what the receiver was told of a blocked fleet.
type blockedTold struct {
	// Since is when a sender first saw that the fleet is blocked, which names the event; zero = it is not.
	Since time.Time `json:"since,omitzero"`
	Told  bool      `json:"told,omitempty"`
	// At is when the last such event was sent.
	At time.Time `json:"at,omitzero"`
}

// neededTold is what the receiver was told of what needs a person.
type neededTold struct {
	// Counts are by kind: those that were told, or fewer where persons did something since.
	Counts map[string]int `json:"counts,omitempty"`
	// At is when the last such event was sent.
	At time.Time `json:"at,omitzero"`
}

// Blocked is the data of fleet.blocked.
type Blocked struct {
	Since time.Time `json:"since"`
	// Reasons are why the fleet posts nothing, in the words of the command fleet.
	Reasons []string `json:"reasons"`
	// Due counts the orders that could be posted.
	Due uint64 `json:"due"`
	// Command shows each worker with its reasons.
	Command string `json:"command"`
}

// Needed is the data of person.needed.
type Needed struct {
	Needs []Need `json:"needs"`
}

// Need is one kind of what needs a person.
type Need struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Command lists them; "" = only the console does, at the path Console.
	Command string `json:"command,omitempty"`
	Console string `json:"console,omitempty"`
}

// kinds are what can need a person, in the order in which they are told.
var kinds = []Need{
	{Kind: "losses", Command: "orderpost worker repair"},
	{Kind: "dead_letters", Command: "orderpost deadletter list", Console: "/letters"},
	{Kind: "imports_to_approve", Command: "orderpost enqueue status", Console: "/approvals"},
	{Kind: "acts_to_approve", Console: "/approvals"},
}

// watchAlert tells what look finds.
func (s *session) watchAlert(intake, work context.Context, kind string, look func(context.Context) (*message, func(), error)) {
	waits, next := newBackoff(firstWait, longestWait), time.Time{}
	s.watch(intake, s.log.With().Str("event", kind).Logger(), "cannot look whether there is something to tell", func() (time.Duration, error) {
		if time.Now().Before(next) {
			return s.pace.look, nil
		}
		m, delivered, err := look(intake)
		switch {
		case err != nil || m == nil:
		case s.send(intake, work, m):
			delivered()
			waits.Reset()
		default:
			next = time.Now().Add(waits.NextBackOff())
		}
		return s.pace.look, err
	})
}

func (s *session) setBlocked(b blockedTold) { s.noteTold(func(t *allTold) { t.Blocked = b }) }

func (s *session) setNeeded(n neededTold) { s.noteTold(func(t *allTold) { t.Needed = n }) }

// lookBlocked returns the event of a fleet that is blocked, and what to do once it is delivered; nil = there
// is nothing to tell. One that a person holds is not blocked, nor one without an order that is due.
func (s *session) lookBlocked(ctx context.Context) (m *message, delivered func(), err error) {
	view, err := fleet.New(s.queue).Look(ctx)
	if err != nil {
		return nil, nil, err
	}
	since, reasons := view.Stopped()
	due := uint64(0)
	if len(reasons) > 0 && view.Hold == nil {
		if due, err = s.due(ctx); err != nil {
			return nil, nil, err
		}
	}
	told := s.lastTold().Blocked
	now := time.Now().UTC()
	switch {
	case due == 0:
		s.setBlocked(blockedTold{At: told.At})
		return nil, nil, nil
	case told.Since.IsZero():
		told.Since = now
		s.setBlocked(told)
	}
	if told.Told || now.Sub(told.Since) < s.pace.after || now.Sub(told.At) < s.pace.gap {
		return nil, nil, nil
	}
	if since.IsZero() || since.After(told.Since) {
		since = told.Since
	}
	body, err := json.Marshal(Event{Type: TypeBlocked, Timestamp: since.UTC(), Data: Blocked{Since: since.UTC(), Reasons: reasons, Due: due, Command: "orderpost fleet"}})
	told.Told, told.At = true, now
	return &message{id: idOf(TypeBlocked, told.Since.UTC().Format(time.RFC3339Nano)), kind: TypeBlocked, body: body}, func() { s.setBlocked(told) }, err
}

// due counts the orders that a fleet could post: those in the queue, and those in the waiting room
// whose time has come and that no person keeps there.
func (s *session) due(ctx context.Context) (uint64, error) {
	counts, err := s.queue.Census.Count(ctx)
	if err != nil || counts.Waiting == 0 {
		return counts.Pending, err
	}
	feeding, err := imports.ReadFeeding(ctx, s.queue, 0)
	if err != nil {
		return 0, err
	}
	waiting, err := s.queue.Waiting.All(ctx)
	for _, w := range waiting {
		if !w.At.After(time.Now()) && feeding.HoldOf(w.Import) == nil {
			counts.Pending += uint64(w.Count)
		}
	}
	return counts.Pending, err
}

// lookNeeded returns the event of what needs a person, and what to do once it is delivered; nil = of
// no kind is more there than was told.
func (s *session) lookNeeded(ctx context.Context) (m *message, delivered func(), err error) {
	counts, err := s.needs(ctx)
	if err != nil {
		return nil, nil, err
	}
	told := s.lastTold().Needed
	now, grew := time.Now().UTC(), false
	before := make(map[string]int)
	for kind, n := range told.Counts {
		before[kind] = min(n, counts[kind])
	}
	data, id := Needed{}, []string{TypeNeeded, told.At.UTC().Format(time.RFC3339Nano)}
	for _, need := range kinds {
		if need.Count = counts[need.Kind]; need.Count > 0 {
			data.Needs, id = append(data.Needs, need), append(id, need.Kind, strconv.Itoa(need.Count))
		}
		grew = grew || need.Count > before[need.Kind]
	}
	if !grew || now.Sub(told.At) < s.pace.gap {
		if !maps.Equal(before, told.Counts) {
			s.setNeeded(neededTold{Counts: before, At: told.At})
		}
		return nil, nil, nil
	}
	body, err := json.Marshal(Event{Type: TypeNeeded, Timestamp: now, Data: data})
	return &message{id: idOf(id...), kind: TypeNeeded, body: body}, func() { s.setNeeded(neededTold{Counts: counts, At: now}) }, err
}

// needs counts what needs a person, by kind. Orders whose outcome is unknown have dead letters.
func (s *session) needs(ctx context.Context) (map[string]int, error) {
	sizes, err := s.queue.Census.Count(ctx)
	if err != nil {
		return nil, err
	}
	feeding, err := imports.ReadFeeding(ctx, s.queue, 0)
	if err != nil {
		return nil, err
	}
	toApprove, acts := feeding.Awaiting()
	look, cancel := context.WithTimeout(ctx, lossTime)
	defer cancel()
	losses, _, err := s.queue.Extents.Losses(look, nil)
	if err != nil {
		return nil, fmt.Errorf("what the broker lost: %w", err)
	}
	all := map[string]int{"losses": len(losses), "dead_letters": int(sizes.Letters), "imports_to_approve": len(toApprove), "acts_to_approve": len(acts)}
	maps.DeleteFunc(all, func(_ string, n int) bool { return n == 0 })
	return all, nil
}
