package worker

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/cli/lookup"
	"orderpost/internal/fleet"
)

// fleetWidth is the usual width of a terminal.
const fleetWidth = 80

// printFleet prints the fleet's workers and what controls them, in lines of 80
// columns. missing names the parts that the broker lacks.
func printFleet(out io.Writer, f *fleet.View, told fleet.Told, missing []string) {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintln(out, strings.TrimRight(lookup.Clip(fmt.Sprintf(format, args...), fleetWidth), " "))
	}
	if told.NothingSent != "" {
		sayWrapped(say, strings.ToUpper(told.NothingSent[:1])+told.NothingSent[1:])
	}
	for _, key := range f.Unreadable {
		say("Held: the bucket's entry %s cannot be read", key)
		sayLong(out, "a newer version or a hand wrote it; orderpost resume and orderpost limit replace it")
	}
	for _, name := range missing {
		say("Missing: %s", name)
	}
	if f.Identity != nil {
		say("API: %s", f.Identity)
	}
	say("Limit: %s", describeLimit(f.Limit))
	if told.Pace != "" {
		sayWrapped(say, "Pace: "+told.Pace)
	}
	for _, a := range told.Absent {
		sayWrapped(say, a.Text)
	}
	switch {
	case len(f.Members) > 0:
		_, _ = fmt.Fprintln(out)
		printMembers(out, say, f.Members, told.NothingSent != "")
	case f.StoresNothing == "":
		say("No worker is running.")
	}
	if doors := f.Doors(); len(doors) > 0 {
		_, _ = fmt.Fprintln(out)
		printDoors(out, say, doors)
	}
}

// printDoors prints the processes that let orders in and outcomes out.
func printDoors(out io.Writer, say func(format string, args ...any), doors []fleet.Door) {
	const line = "%-18s  %-11s  %-7s  %7s  %7s  %s"
	say(line, "DOOR", "SINCE (UTC)", "KIND", "RATE/S", "BEHIND", "VERSION")
	for _, d := range doors {
		since, rate, behind := "-", perSecond(d.Rate), "-"
		if !d.Since.IsZero() {
			since = d.Since.UTC().Format("01-02 15:04")
		}
		if d.Sends {
			behind = strconv.FormatUint(d.Backlog, 10)
		} else if d.Kind == fleet.DoorNotify {
			rate = "waits" // another one sends
		}
		say(line, lookup.Clip(d.Name, 18), since, d.Kind, rate, behind, d.Version)
		if d.Problem != "" {
			sayLong(out, d.Problem)
		}
	}
}

// printMembers prints the workers. held says that nothing is sent, whatever a worker said
// before it heard of that.
func printMembers(out io.Writer, say func(format string, args ...any), members []fleet.Presence, held bool) {
	const line = "%-18s  %-11s  %7v  %7s  %7s  %8s  %s"
	say(line, "WORKER", "SINCE (UTC)", "IN HAND", "RATE/S", "SHARE/S", "CLOCK", "GATE")
	inHand, rate := 0, 0.0
	for _, p := range members {
		since, share, clock, gate := "-", "-", "-", "open"
		if !p.Since.IsZero() {
			since = p.Since.UTC().Format("01-02 15:04")
		}
		if p.Share > 0 {
			share = fleet.RateText(p.Share)
		}
		if p.ClockMS != nil {
			clock = offset(time.Duration(*p.ClockMS) * time.Millisecond)
		}
		if !p.Open || held {
			gate = "closed"
		}
		say(line, lookup.Clip(p.Worker, 18), since, p.InFlight, perSecond(p.Rate), share, clock, gate)
		about := "  " + p.Version
		if answers := p.Answers(); answers != "" {
			about += ", answers " + answers
		}
		if p.Binds != "" {
			about += ", held by " + p.Binds.Words()
		}
		say("%s", about)
		for _, reason := range p.Reasons {
			sayLong(out, reason)
		}
		for _, note := range p.Notes {
			sayLong(out, "note: "+note)
		}
		inHand, rate = inHand+p.InFlight, rate+p.Rate
	}
	if len(members) > 1 {
		say(line, fmt.Sprintf("%d workers", len(members)), "", inHand, perSecond(rate), "", "", "")
	}
}

// maxLines is the largest number of lines of one reason. /readyz and the log show all.
const maxLines = 8

// sayWrapped prints a sentence on as many lines as it takes.
func sayWrapped(say func(format string, args ...any), text string) {
	for i, line := range lookup.Lines(text, fleetWidth-2) {
		if i > 0 {
			line = "  " + line
		}
		say("%s", line)
	}
}

// sayLong prints the first line of a text on up to maxLines lines. The lines below it are
// a rule to copy, and stay as they are.
func sayLong(out io.Writer, text string) {
	text, rule, _ := strings.Cut(text, "\n")
	lines := lookup.Lines(text, fleetWidth-4)
	if len(lines) > maxLines {
		lines = append(lines[:maxLines-1], "… (the rest is in the worker's log and at /readyz)")
	}
	for i, line := range lines {
		indent := "  "
		if i > 0 {
			indent = "    "
		}
		_, _ = fmt.Fprintln(out, indent+line)
	}
	for line := range strings.Lines(rule) {
		_, _ = fmt.Fprintln(out, lookup.Plain(strings.TrimSuffix(line, "\n")))
	}
}

// offset formats a clock offset, below ten seconds in milliseconds.
func offset(d time.Duration) string {
	if d.Abs() < 10*time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return d.Round(time.Second).String()
}

// perSecond formats a measured rate with at most one decimal.
func perSecond(rate float64) string { return strconv.FormatFloat(math.Round(rate*10)/10, 'f', -1, 64) }
