package console

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// roomWatch reads the waiting room once for all viewers, at most once a second: the
// broker lists up to 100,000 seconds and imports.
type roomWatch struct {
	mu   sync.Mutex
	last *status.Room
	at   time.Time
}

func (r *roomWatch) read(ctx context.Context, q *queue.Queue, weights map[string]int) (*status.Room, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < freshFor {
		return r.last, nil
	}
	room, err := status.ReadRoom(ctx, q, weights, time.Now())
	if err == nil {
		r.last, r.at = room, time.Now()
	}
	return room, err
}

// forget makes the next page read anew.
func (r *roomWatch) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

type waitingPage struct {
	*status.Room
	Total   uint64
	Imports []waitingLine
	Paused  []pausedLine
	// Says is about the worker that feeds the queue.
	Says      string
	Bad       bool
	MayImport bool
}

// waitingLine is what waits of an import.
type waitingLine struct {
	status.RoomImport
	Name string
	// Known: the console has a page of this import.
	Known bool
}

// pausedLine is an import that is not fed.
type pausedLine struct {
	status.HeldImport
	Name string
}

func showWaiting(v *visit) error {
	snap := v.s.watch.look(v.Context())
	ctx := v.brief()
	room, err := v.s.room.read(ctx, v.s.queue, snap.Fleet.Lanes)
	if err != nil {
		return err
	}
	p := waitingPage{Room: room, Total: snap.Counts.Waiting, MayImport: v.may(Importer)}
	for _, i := range room.Imports {
		line := waitingLine{RoomImport: i}
		line.Name, line.Known = v.s.batches.name(ctx, i.Batch)
		p.Imports = append(p.Imports, line)
	}
	for _, h := range room.Held {
		name, _ := v.s.batches.name(ctx, h.Import)
		p.Paused = append(p.Paused, pausedLine{h, name})
	}
	l := room.Lease
	present := l != nil && slices.ContainsFunc(snap.Workers, func(w fleet.Presence) bool { return w.Worker == l.Process })
	switch {
	case present && l.Problem != "":
		p.Says, p.Bad = "Worker "+l.Process+" cannot feed the queue: "+sentence(l.Problem), true
	case present:
		p.Says = "Worker " + l.Process + " feeds the queue from here."
	case p.Total > 0:
		p.Says, p.Bad = "Nobody feeds the queue from here: no worker is running.", true
	}
	v.live = true
	return v.render("waiting", "Waiting room", p)
}

// heldChanged says who holds the import now.
func heldChanged(h *imports.Hold) string {
	says := "It is not held by anybody now."
	if h != nil {
		says = "It is held by " + strings.TrimSuffix(h.By(), ".") + "."
	}
	return "Somebody else has paused or continued the import since you opened this page. " + says
}

// heldImport reads an import's name and what holds it.
func heldImport(v *visit) (batch, name string, h *imports.Hold, err error) {
	batch = v.given("batch")
	ctx := v.brief()
	imp, err := imports.ReadImport(ctx, v.queue(), batch)
	if err != nil {
		return "", "", nil, err
	}
	if h, err = imports.ReadHold(ctx, v.queue(), batch); err != nil {
		return "", "", nil, err
	}
	if imp == nil && h == nil {
		waits, err := v.queue().Waiting.StillWaits(ctx, imports.ImportToken(batch), queue.ToTheEnd)
		if err != nil {
			return "", "", nil, err
		}
		if !waits {
			return "", "", nil, notFound("Nothing is known about an import "+shorten(plain(batch), 100)+".", "The page Waiting room lists what waits.")
		}
	}
	name = batch
	if imp != nil {
		name, _ = importName(imp)
	}
	return batch, name, h, nil
}

// holdTime bounds a pause: it returns once the feeder has let go of the import.
const holdTime = 10 * time.Second

func pauseImport(v *visit) error {
	batch, name, h, err := heldImport(v)
	if err != nil {
		return err
	}
	c := &confirmation{Title: "Pause import " + shorten(name, 60), Button: "Pause the import", Back: importBack(v, batch),
		Says: []string{"Its orders that wait for their turn or their time stay where they are, until somebody lets the import go on.", "Other imports take their turns. Orders that are in the queue already are sent."},
		Seen: mark(h), Changed: heldChanged(h), Fields: []fact{{"batch", batch}}, Inputs: []input{noteInput(false)}}
	if h != nil {
		c.Warning = "The import is held already, by " + h.By() + "."
	}
	ctx := v.brief()
	waits, err := v.queue().Waiting.Of(ctx, imports.ImportToken(batch))
	if err != nil {
		return err
	}
	c.Facts = []fact{{"They wait now", plural(waits, "order", "orders")}}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	about := journal.About{Kind: journal.Pause, Batch: batch, Note: c.Inputs[0].Value}
	err = v.act(about, journal.Always, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, holdTime)
		defer cancel()
		return imports.PauseImport(ctx, v.s.queue, batch, v.person().Name)
	})
	return afterHold(v, batch, err, "The import is paused.")
}

func resumeImport(v *visit) error {
	batch, name, h, err := heldImport(v)
	if err != nil {
		return err
	}
	c := &confirmation{Title: "Let import " + shorten(name, 60) + " go on", Button: "Let it go on", Back: importBack(v, batch),
		Seen: mark(h), Changed: heldChanged(h), Fields: []fact{{"batch", batch}}, Inputs: []input{noteInput(false)}}
	switch {
	case h == nil:
		c.Says = []string{"Nobody holds the import."}
	default:
		c.Says = []string{"It is paused by " + h.By() + ". Its orders take their turns again."}
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	about := journal.About{Kind: journal.GoOn, Batch: batch, Note: c.Inputs[0].Value}
	err = v.act(about, nil, func(ctx context.Context) error {
		_, err := imports.ResumeImport(ctx, v.s.queue, batch)
		return err
	})
	return afterHold(v, batch, err, "The import goes on.")
}

// importBack is the page to which an act on an import leads: its own, or the waiting room
// for an import of a producer.
func importBack(v *visit, batch string) string {
	if _, known := v.s.batches.name(v.Context(), batch); known {
		return imports.Address(batch)
	}
	return "/waiting"
}

func afterHold(v *visit, batch string, err error, sentence string) error {
	if err != nil {
		return err
	}
	v.s.watch.forget()
	v.s.room.forget()
	return v.done(importBack(v, batch), sentence)
}
