package worker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// waitingRoom is what fleet tells about the waiting room.
type waitingRoom struct {
	Lanes []status.RoomLane
	// Feeder is the worker that feeds the queue; "" = nobody does.
	Feeder string
	// Problem is why it moves nothing at the moment.
	Problem string
	// Paused are the imports that are not fed.
	Paused []status.HeldImport
}

// readWaitingRoom reads nothing of an installation with missing parts.
func readWaitingRoom(ctx context.Context, q *queue.Queue, f *fleet.View, missing []string) (*waitingRoom, error) {
	if len(missing) > 0 {
		return &waitingRoom{}, nil
	}
	all, err := status.ReadRoom(ctx, q, f.Lanes, time.Now())
	if err != nil {
		return nil, err
	}
	room := &waitingRoom{Lanes: all.Lanes, Paused: all.Held}
	if l := all.Lease; l != nil && slices.ContainsFunc(f.Present(), func(p fleet.Presence) bool { return p.Worker == l.Process }) {
		room.Feeder, room.Problem = l.Process, l.Problem
	}
	return room, nil
}

// printWaitingRoom prints the lanes; nothing where nothing waits and no lane has a
// weight.
func printWaitingRoom(out io.Writer, room *waitingRoom, now time.Time) {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintln(out, strings.TrimRight(lookup.Clip(fmt.Sprintf(format, args...), fleetWidth), " "))
	}
	if len(room.Lanes) > 0 {
		const line = "%-26s  %6v  %9v  %9s  %9v  %9v"
		say("")
		say(line, "LANE", "WEIGHT", "READY", "OLDEST", "LATER", "PAUSED")
		waits := 0
		for _, lane := range room.Lanes {
			age := "-"
			if !lane.Oldest.IsZero() {
				age = max(now.Sub(lane.Oldest), 0).Round(time.Second).String()
			}
			say(line, lane.Name, lane.Weight, lane.Ready, age, lane.Later, lane.Paused)
			waits += lane.Ready + lane.Later
		}
		if waits > 0 && room.Feeder == "" {
			sayLong(out, "nobody feeds the queue from these lanes: start a worker")
		}
	}
	if room.Problem != "" {
		sayLong(out, fmt.Sprintf("worker %s cannot feed the queue: %s", cli.Printable(room.Feeder), cli.Printable(room.Problem)))
	}
	for _, p := range room.Paused {
		sayLong(out, fmt.Sprintf("Paused: import %s, by %s", cli.Printable(p.Import), cli.Printable(p.By)))
	}
}
