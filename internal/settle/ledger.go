package settle

import (
	"sync/atomic"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
)

// Ledger reads and writes records and letters: the last word read exactly (R2), the
// conditional write (R1), and the letter of each failure (R4).
type Ledger struct {
	cfg   Config
	log   zerolog.Logger
	store Store
	time  Runtime

	cancelled   cancelled
	disconnects atomic.Uint64                           // counts Disconnected and ForgetDeliveries
	filed       [order.OutcomeUnknown + 1]atomic.Uint64 // letters filed, by outcome
	mutation    Mutation                                // set by simulations only
}

// LettersFiled returns how many dead letters with this outcome this program
// filed.
func (lg *Ledger) LettersFiled(o order.Outcome) uint64 { return lg.filed[o].Load() }
