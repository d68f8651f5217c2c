package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/platform/duration"
)

// holdTimes are how long a person can hold the fleet with one choice.
var holdTimes = []fact{{"", "until somebody resumes it"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"4h", "4 hours"}, {"12h", "12 hours"}, {"24h", "24 hours"}}

// fleetNow is the fleet at the moment at which a person decides.
type fleetNow struct {
	*fleet.View
	workers, inHand int
}

// ofFleet serves an act on the fleet as it is now.
func ofFleet(serve func(*visit, *fleetNow) error) func(*visit) error {
	return func(v *visit) error {
		view, err := v.s.fleet.Read(v.brief())
		if err != nil {
			return err
		}
		f := &fleetNow{View: view}
		for _, p := range view.Present() {
			f.workers, f.inHand = f.workers+1, f.inHand+p.InFlight
		}
		return serve(v, f)
	}
}

// changed says what somebody else did meanwhile.
func (f *fleetNow) changed() string {
	says := "Somebody else has steered the fleet since you opened this page."
	if h := f.Hold; h != nil {
		says += " It is held by " + somebody(h.By) + " since " + stamp(h.Since) + "."
	} else {
		says += " It is not held by anybody now."
	}
	return says + " Rate limit: " + describeLimit(f.Limit) + "."
}

// afterSteering turns the error of an act into what the person sees.
func afterSteering(v *visit, err error, sentence string) error {
	switch {
	case errors.Is(err, fleet.ErrSteered):
		return stale("Somebody else has steered the fleet at the same moment.")
	case err != nil:
		return err
	}
	v.s.watch.forget()
	return v.done("/fleet", sentence)
}

func holdFleet(v *visit, f *fleetNow) error {
	c := &confirmation{Title: "Hold the fleet", Button: "Hold the fleet", Back: "/fleet", Seen: f.Mark(), Changed: f.changed(), Inputs: []input{
		{Name: "reason", Label: "Reason", Hint: "Everybody sees it beside the gate."},
		{Name: "for", Label: "How long", Options: holdTimes},
	}}
	switch {
	case f.workers == 0:
		c.Says = append(c.Says, "No worker is running. Workers that start later are held, too.")
	default:
		c.Says = append(c.Says, fmt.Sprintf("%s within a second. Requests that are at the API already are finished first; %s in hand.",
			plural(f.workers, "worker stops posting", "workers stop posting"), plural(f.inHand, "order is", "orders are")))
	}
	c.Says = append(c.Says, "A pull that is under way may still take orders: they wait at the gate, or go back to the queue.",
		"Orders can still be enqueued. The time of a hold counts neither as an attempt nor as age, and the hold survives restarts.")
	if h := f.Hold; h != nil {
		c.Warning = "The fleet is held already, by " + somebody(h.By) + " since " + stamp(h.Since) + ". Your hold replaces that one, with its reason and its end."
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	h := fleet.Hold{Reason: c.Inputs[0].Value, By: v.person().Name, Since: time.Now().UTC()}
	if c.Inputs[1].Value != "" {
		last, err := duration.Parse(c.Inputs[1].Value)
		if err != nil || last == 0 {
			return badRequest("The time "+c.Inputs[1].Value+" is none of those to choose from.", "Choose again.")
		}
		h.For = last
	}
	about := journal.About{Kind: journal.Hold, Note: h.Reason, Details: map[string]string{"lasts": h.Lasts()}}
	prolongs := func(context.Context) bool { return f.Prolongs(h) }
	return afterSteering(v, v.act(about, prolongs, func(ctx context.Context) error { return v.s.fleet.HoldAsSeen(ctx, h, f.View) }), "The fleet is held.")
}

func resumeFleet(v *visit, f *fleetNow) error {
	c := &confirmation{Title: "Resume the fleet", Button: "Resume the fleet", Back: "/fleet", Seen: f.Mark(), Changed: f.changed(), Inputs: []input{noteInput(false)}}
	switch h := f.Hold; {
	case h != nil:
		c.Says = append(c.Says, "It is held by "+somebody(h.By)+" since "+stamp(h.Since)+".")
		if h.Reason != "" {
			c.Says = append(c.Says, "The reason was: "+h.Reason)
		}
	case len(f.Unreadable) > 0:
		c.Says = append(c.Says, "The bucket has entries that this version cannot read. Resuming removes the hold among them.")
	default:
		c.Says = append(c.Says, "Nobody holds the fleet.")
	}
	if f.workers == 0 {
		c.Says = append(c.Says, "No worker is running, so nothing is sent until one starts.")
	} else {
		c.Says = append(c.Says, plural(f.workers, "worker posts", "workers post")+" again within a second. Where the API's answers have shut a gate, the worker tries again at once, because a person has looked.")
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	about := journal.About{Kind: journal.Resume, Note: c.Inputs[0].Value}
	return afterSteering(v, v.act(about, nil, func(ctx context.Context) error {
		return v.s.fleet.ResumeAsSeen(ctx, v.person().Name, f.View)
	}), "The fleet goes on.")
}

func limitFleet(v *visit, f *fleetNow) error {
	text := v.given("limit")
	l, wrong := fleet.ReadLimit(text)
	if text == "" || wrong != nil {
		page := limitPage{Now: describeLimit(f.Limit), Value: text}
		if text != "" {
			page.Wrong, v.status = sentence(wrong.Error()), 422
		}
		return v.render("limit", "Limit the fleet", page)
	}
	c := &confirmation{Title: "Limit the fleet", Button: "Set the limit", Back: "/fleet", Seen: f.Mark(), Changed: f.changed(), Fields: []fact{{"limit", text}}, Inputs: []input{noteInput(false)},
		Facts: []fact{{"Limit now", describeLimit(f.Limit)}}}
	switch {
	case l == nil:
		c.Says = append(c.Says, "The workers' own settings decide again (ORDERPOST_RATE_LIMIT); the lowest among them counts for all.")
	case l.PerSecond == 0:
		c.Says = append(c.Says, "The workers post as fast as the API answers.")
		c.Warning = "Nothing bounds the rate then but the API itself."
	case f.workers > 0:
		c.Says = append(c.Says, fmt.Sprintf("%s at most %s requests per second together, about %s each, within a few seconds.",
			plural(f.workers, "worker sends", "workers send"), fleet.RateText(l.PerSecond), fleet.RateText(l.PerSecond/float64(f.workers))))
	default:
		c.Says = append(c.Says, "No worker is running. Those that start send at most "+fleet.RateText(l.PerSecond)+" requests per second together.")
	}
	about := journal.About{Kind: journal.Limit, Details: map[string]string{"limit": text}}
	c.Asks = &about
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	about.Note = c.Inputs[0].Value
	if l != nil {
		l.By, l.At = v.person().Name, time.Now().UTC()
	}
	lowers := func(context.Context) bool { return f.Lowers(l) }
	return afterSteering(v, v.act(about, lowers, func(ctx context.Context) error { return v.s.fleet.SetLimitAfter(ctx, l, f.LimitRevision()) }),
		"The fleet's limit: "+describeLimit(l)+".")
}

// limitPage asks for a limit.
type limitPage struct{ Now, Value, Wrong string }

type fleetPage struct {
	*snapshot
	Gate   gateState
	InHand int
	Rate   float64
	Limit  string
}

func showFleet(v *visit) error {
	snap := v.s.watch.look(v.Context())
	p := fleetPage{snapshot: snap, Gate: gateOf(snap), Limit: describeLimit(snap.Fleet.Limit)}
	for _, w := range snap.Workers {
		p.InHand, p.Rate = p.InHand+w.InFlight, p.Rate+w.Rate
	}
	p.Gate.Steer = v.may(Operator)
	v.live = true
	return v.render("fleet", "Fleet", p)
}

// describeLimit says which rate limit the workers share.
func describeLimit(l *fleet.Limit) string {
	switch {
	case l == nil:
		return "as the workers are set (ORDERPOST_RATE_LIMIT)"
	case l.PerSecond == 0:
		return "none, set by " + somebody(l.By) + " at " + stamp(l.At)
	default:
		return fleet.RateText(l.PerSecond) + " requests per second, set by " + somebody(l.By) + " at " + stamp(l.At)
	}
}
