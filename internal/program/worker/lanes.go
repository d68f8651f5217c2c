package worker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/program/lookup"
	"orderpost/internal/queue"
)

// waitingRoom is what fleet tells about the waiting room.
type waitingRoom struct {
	Lanes []laneState
	// Feeder is the worker that feeds the queue; "" = nobody does.
	Feeder string
	// Problem is why it moves nothing at the moment.
	Problem string
	// Paused are the imports that are not fed.
	Paused []pausedImport
}

type laneState struct {
	queue.Lane
	Weight int `json:"weight"`
}

type pausedImport struct {
	Import string `json:"import"`
	By     string `json:"by"`
}

// readWaitingRoom reads the lanes, those included that have a weight and nothing
// waiting. It reads nothing of an installation with missing parts.
func readWaitingRoom(ctx context.Context, q *queue.Queue, f *fleet.View, missing []string) (*waitingRoom, error) {
	room := &waitingRoom{}
	if len(missing) > 0 {
		return room, nil
	}
	feeding, err := books.ReadFeeding(ctx, q, 0)
	if err != nil {
		return nil, err
	}
	lanes, err := q.Lanes(ctx, feeding.Held)
	if err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		room.Lanes = append(room.Lanes, laneState{lane, weightOf(f.Lanes, lane.Name)})
	}
	for _, name := range slices.Sorted(maps.Keys(f.Lanes)) {
		if !slices.ContainsFunc(lanes, func(l queue.Lane) bool { return l.Name == name }) {
			room.Lanes = append(room.Lanes, laneState{queue.Lane{Name: name}, f.Lanes[name]})
		}
	}
	if l := feeding.Lease; l != nil && slices.ContainsFunc(f.Present(), func(p fleet.Presence) bool { return p.Worker == l.Worker }) {
		room.Feeder, room.Problem = l.Worker, l.Problem
	}
	for _, token := range slices.Sorted(maps.Keys(feeding.Holds)) {
		room.Paused = append(room.Paused, pausedImport{books.ImportName(token), feeding.Holds[token].By()})
	}
	return room, nil
}

func weightOf(weights map[string]int, lane string) int {
	if w, known := weights[lane]; known {
		return w
	}
	return order.DefaultWeight
}

// printWaitingRoom prints the lanes; nothing where nothing waits and no lane has a
// weight.
func printWaitingRoom(ctx context.Context, out io.Writer, room *waitingRoom, now time.Time) {
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
			sayLong(say, program.Spell(ctx, "nobody feeds the queue from these lanes: no running worker knows the waiting room (start a worker of this version)"))
		}
	}
	if room.Problem != "" {
		sayLong(say, fmt.Sprintf("worker %s cannot feed the queue: %s", program.Printable(room.Feeder), program.Printable(room.Problem)))
	}
	for _, p := range room.Paused {
		sayLong(say, fmt.Sprintf("Paused: import %s, by %s", program.Printable(p.Import), program.Printable(p.By)))
	}
}
