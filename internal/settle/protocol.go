package settle

import (
	"cmp"
	"time"
)

// Protocol keeps the settle rules R1 to R10 and R13 to R15 (docs/protocol.md) over a
// [Store], with one part for each who acts. The parts are safe for concurrent use and run
// nothing in the background. The owner of the broker's connection calls [Claims.Extend],
// [Worker.Disconnected] and [Worker.Reconnected].
type Protocol struct {
	// Ledger reads and writes records and letters. All other parts rest on it.
	Ledger *Ledger
	// Producer stores intents.
	Producer *Producer
	// Worker takes a delivery from the pull to its acknowledgement.
	Worker *Worker
	// Claims are the worker's claims on its deliveries.
	Claims *Claims
	// Trimmer keeps the log of intents short.
	Trimmer *Trimmer
	// Sweeper removes dead letters that no record names.
	Sweeper *Sweeper
	// Overdue finds deliveries that wait for a clock.
	Overdue *Overdue
	// Mover takes intents out of the waiting room.
	Mover *Mover
	// Operator carries out what persons say.
	Operator *Operator
}

// New returns a Protocol. Call Claims.Start before the first pull.
func New(cfg Config, store Store, runtime Runtime) Protocol {
	if cfg.Patience == nil {
		cfg.Patience = impatient{}
	}
	cfg.ProveAtOnce, cfg.SweepAfter = cmp.Or(cfg.ProveAtOnce, ReadBatch), cmp.Or(cfg.SweepAfter, time.Hour)
	ledger := &Ledger{cfg: cfg, log: cfg.Log, store: store, time: runtime}
	producer, claims := &Producer{ledger}, newClaims(ledger)
	acked := &acknowledged{}
	return Protocol{
		Ledger: ledger, Producer: producer, Claims: claims,
		Worker:   &Worker{ledger: ledger, claims: claims, acked: acked, highWater: newHighWater(ledger)},
		Trimmer:  &Trimmer{ledger: ledger, claims: claims, acked: acked},
		Sweeper:  &Sweeper{ledger: ledger},
		Overdue:  &Overdue{ledger: ledger, claims: claims},
		Mover:    &Mover{ledger: ledger},
		Operator: &Operator{ledger, producer},
	}
}
