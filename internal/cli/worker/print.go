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

// printer prints lines of that width.
type printer struct{ io.Writer }

// say prints one line, which it cuts off.
func (p printer) say(format string, args ...any) {
	_, _ = fmt.Fprintln(p, strings.TrimRight(lookup.Clip(fmt.Sprintf(format, args...), fleetWidth), " "))
}

// printFleet prints the fleet's workers and what controls them, in lines of 80
// columns. missing names the parts that the broker lacks.
func printFleet(out io.Writer, f *fleet.View, told fleet.Told, missing []string) {
	p := printer{out}
	if told.NothingSent != "" {
		p.wrapped(strings.ToUpper(told.NothingSent[:1]) + told.NothingSent[1:])
	}
	for _, key := range f.Unreadable {
		p.say("Held: the bucket's entry %s cannot be read", key)
		p.long("a newer version or a hand wrote it; orderpost resume and orderpost limit replace it")
	}
	for _, name := range missing {
		p.say("Missing: %s", name)
	}
	if f.Identity != nil {
		p.say("API: %s", f.Identity)
	}
	p.say("Limit: %s", describeLimit(f.Limit))
	if told.Pace != "" {
		p.wrapped("Pace: " + told.Pace)
	}
	for _, a := range told.Absent {
		p.wrapped(a.Text)
	}
	switch {
	case len(f.Members) > 0:
		_, _ = fmt.Fprintln(out)
		p.members(f.Members, told.NothingSent != "")
	case f.StoresNothing == "":
		p.say("No worker is running.")
	}
	if doors := f.Doors(); len(doors) > 0 {
		_, _ = fmt.Fprintln(out)
		p.doors(doors)
	}
}

// doors prints the processes that let orders in and outcomes out.
func (p printer) doors(doors []fleet.Door) {
	const line = "%-18s  %-11s  %-7s  %7s  %7s  %s"
	p.say(line, "DOOR", "SINCE (UTC)", "KIND", "RATE/S", "BEHIND", "VERSION")
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
		p.say(line, lookup.Clip(d.Name, 18), since, d.Kind, rate, behind, d.Version)
		if d.Problem != "" {
			p.long(d.Problem)
		}
	}
}

// members prints the workers. held says that nothing is sent, whatever a worker said
// before it heard of that.
func (p printer) members(members []fleet.Presence, held bool) {
	const line = "%-18s  %-11s  %7v  %7s  %7s  %8s  %s"
	p.say(line, "WORKER", "SINCE (UTC)", "IN HAND", "RATE/S", "SHARE/S", "CLOCK", "GATE")
	inHand, rate := 0, 0.0
	for _, m := range members {
		since, share, clock, gate := "-", "-", "-", "open"
		if !m.Since.IsZero() {
			since = m.Since.UTC().Format("01-02 15:04")
		}
		if m.Share > 0 {
			share = fleet.RateText(m.Share)
		}
		if m.ClockMS != nil {
			clock = offset(time.Duration(*m.ClockMS) * time.Millisecond)
		}
		if !m.Open || held {
			gate = "closed"
		}
		p.say(line, lookup.Clip(m.Worker, 18), since, m.InFlight, perSecond(m.Rate), share, clock, gate)
		about := "  " + m.Version
		if answers := m.Answers(); answers != "" {
			about += ", answers " + answers
		}
		if m.Binds != "" {
			about += ", held by " + m.Binds.Words()
		}
		p.say("%s", about)
		for _, reason := range m.Reasons {
			p.long(reason)
		}
		for _, note := range m.Notes {
			p.long("note: " + note)
		}
		inHand, rate = inHand+m.InFlight, rate+m.Rate
	}
	if len(members) > 1 {
		p.say(line, fmt.Sprintf("%d workers", len(members)), "", inHand, perSecond(rate), "", "", "")
	}
}

// maxLines is the largest number of lines of one reason. /readyz and the log show all.
const maxLines = 8

// wrapped prints a sentence on as many lines as it takes.
func (p printer) wrapped(text string) {
	for i, line := range lookup.Lines(text, fleetWidth-2) {
		if i > 0 {
			line = "  " + line
		}
		p.say("%s", line)
	}
}

// long prints the first line of a text on up to maxLines lines. The lines below it are
// a rule to copy, and stay as they are.
func (p printer) long(text string) {
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
		_, _ = fmt.Fprintln(p, indent+line)
	}
	for line := range strings.Lines(rule) {
		_, _ = fmt.Fprintln(p, lookup.Plain(strings.TrimSuffix(line, "\n")))
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
