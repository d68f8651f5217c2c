package chaos

import (
	"context"
	"strings"

	"orderpost/proof/overlay"
)

// leakPlant is the fault for soaks; the others are for histories.
const leakPlant = "leak"

// plantPatch makes one change of a fault: by replaces anchor in a file of the product.
type plantPatch struct{ file, anchor, by string }

// plants are the faults that --plant builds into the workers, to prove that the checkers find them.
var plants = map[string][]plantPatch{
	// A worker acknowledges an intent before it writes the outcome (R4).
	"ack-first": {after("internal/settle/settle.go", settleFunc, "\tif s.Outcome != order.OutcomeNone {\n\t\t_ = wk.ack(d)\n\t}\n")},
	// A worker posts a redelivered order without looking at its record (R2).
	"blind": {
		{"internal/settle/check.go", classifyFunc, classifyFunc + "\tif work := wk.looked(d, now); work != WorkSettled {\n\t\treturn work\n\t}\n\treturn WorkSubmit\n}\n\n" +
			strings.Replace(classifyFunc, "classify", "looked", 1)},
		after("internal/settle/handler.go", "func (j *job) mustNoteBegin() bool {\n", "\treturn false\n"),
	},
	// A further attempt is sent with the timestamp of the first, if the API still takes it.
	"old-timestamp": {after("internal/submit/submission.go", "\tstamp := t.clock.stamp(t.report.History.LastTimestamp)\n",
		"\tif last := t.report.History.LastTimestamp; stamp-last < time.Minute.Milliseconds() {\n\t\tstamp = last\n\t}\n")},
	// The log of intents is purged up to what was delivered, before the results are certain (R14).
	"trim-ahead": {after("internal/settle/trim.go", "\tupTo := tr.settled\n", "\tupTo = p.Delivered\n")},
	// One absent answer is believed, and ends doubt. The order is posted again (R3).
	"absent-at-once": {after("internal/order/lookup.go", absentOnce, "\t\tr.Verdict, r.Final, h.Unsure = VerdictNone, true, false\n\t\treturn EndAbsent\n")},
	// A second absent answer is believed at once (R3).
	"short-quarantine": {{"internal/order/lookup.go", absentTwice, strings.Replace(absentTwice, "known >= quarantine", "known >= quarantine/20", 1)}},
	// Each settled order leaves 16 kB, and every other one a goroutine and a file.
	leakPlant: {
		after("internal/worker/handle.go", "\tp.handler.Handle(p.work, p.settle, d, o)\n", "\tleak()\n"),
		{file: "internal/worker/leak.go", by: leakSource},
	},
}

// lookupPlants are those that a run with --lookup shows.
var lookupPlants = map[string]bool{"absent-at-once": true, "short-quarantine": true}

const (
	absentOnce   = "	case f == FoundAbsent && h.AbsentAt.IsZero():\n\t\th.AbsentAt = now.UTC()\n"
	absentTwice  = "	case f == FoundAbsent && known >= quarantine:\n"
	settleFunc   = "func (wk *Worker) Settle(ctx context.Context, d *Delivery, r *order.Report, s order.Settlement) (Entry, error) {\n"
	classifyFunc = "func (wk *Worker) classify(d *Delivery, now time.Time) Work {\n"
	leakSource   = `package worker

import (
	"bytes"
	"os"
	"sync"
)

var leaked struct {
	sync.Mutex
	orders int
	bytes  [][]byte
	files  []*os.File
}

func leak() {
	leaked.Lock()
	defer leaked.Unlock()
	leaked.orders++
	leaked.bytes = append(leaked.bytes, bytes.Repeat([]byte{1}, 16<<10))
	if leaked.orders%2 > 0 {
		return
	}
	go func() { select {} }()
	if f, err := os.Open(os.DevNull); err == nil {
		leaked.files = append(leaked.files, f)
	}
}
`
)

// after inserts text after a text that a file of the product holds.
func after(file, anchor, text string) plantPatch { return plantPatch{file, anchor, anchor + text} }

// plant adds a fault; "" = none.
func plant(ctx context.Context, o overlay.Files, name string) error {
	for _, p := range plants[name] {
		file, err := overlay.Product(ctx, p.file)
		if err != nil {
			return err
		}
		if p.anchor == "" {
			o[file] = p.by
		} else if err := o.Patch(file, p.anchor, p.by); err != nil {
			return err
		}
	}
	return nil
}
