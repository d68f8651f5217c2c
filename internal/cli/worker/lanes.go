package worker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// readWaitingRoom reads nothing of an installation with missing parts. feeder is the lease of the worker that feeds the
// queue, empty if nobody does.
func readWaitingRoom(ctx context.Context, q *queue.Queue, f *fleet.View, missing []string) (room *status.Room, feeder imports.Lease, err error) {
	if len(missing) > 0 {
		return &status.Room{}, feeder, nil
	}
	if room, err = status.ReadRoom(ctx, q, f.Lanes, time.Now()); err != nil {
		return nil, feeder, err
	}
	if l := room.Lease; l != nil && slices.ContainsFunc(f.Present(), func(p fleet.Presence) bool { return p.Worker == l.Process }) {
		feeder = *l
	}
	return room, feeder, nil
}

// printWaitingRoom prints the lanes; nothing where nothing waits and no lane has a
// weight.
func printWaitingRoom(out io.Writer, room *status.Room, feeder imports.Lease, now time.Time) {
	p := printer{out}
	if len(room.Lanes) > 0 {
		const line = "%-26s  %6v  %9v  %9s  %9v  %9v"
		p.say("")
		p.say(line, "LANE", "WEIGHT", "READY", "OLDEST", "LATER", "PAUSED")
		waits := 0
		for _, lane := range room.Lanes {
			age := "-"
			if !lane.Oldest.IsZero() {
				age = max(now.Sub(lane.Oldest), 0).Round(time.Second).String()
			}
			p.say(line, lane.Name, lane.Weight, lane.Ready, age, lane.Later, lane.Paused)
			waits += lane.Ready + lane.Later
		}
		if waits > 0 && feeder.Process == "" {
			p.long("nobody feeds the queue from these lanes: start a worker")
		}
	}
	if feeder.Problem != "" {
		p.long(fmt.Sprintf("worker %s cannot feed the queue: %s", cli.Printable(feeder.Process), cli.Printable(feeder.Problem)))
	}
	for _, held := range room.Held {
		p.long(fmt.Sprintf("Paused: import %s, by %s", cli.Printable(held.Import), cli.Printable(held.By)))
	}
}
