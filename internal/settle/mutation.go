package settle

// Mutation disables a step of the protocol. The simulation uses it to show that
// it notices the loss. Nothing else sets one.
type Mutation uint8

// The mutations of the protocol's own code, by the rule that they break.
const (
	Intact Mutation = iota
	// NoInheritedDoubt: a delivery inherits no doubt (R3).
	NoInheritedDoubt
	// NoLetterCheck: a redelivered failure is acknowledged before its letter is
	// checked (R4).
	NoLetterCheck
	// NoLease: a worker never notices that its claim has ended (R7).
	NoLease
	// NoReconnectGrace: redelivered orders are posted at once after a reconnect
	// (R7).
	NoReconnectGrace
	// PoisonByCount: unexplained deliveries count towards poison (R8).
	PoisonByCount
	// NoStorageGate: the gate stays open while results are refused (R10).
	NoStorageGate
	// RetryEverything: a refused result repeats the whole handling, POST
	// included, instead of the write (R10).
	RetryEverything
	// NoBeginNote: a redelivery is posted without a note before (R3).
	NoBeginNote
	// NoBarrier: a batched read believes any replica (R2).
	NoBarrier
	// WallClockAlone: claims are measured by the wall clock alone (R7).
	WallClockAlone
	// MonotonicAlone: claims are measured by the monotonic clock alone (R7).
	MonotonicAlone
	// BelievePage: a listed letter is not read again before a person's act (R5).
	BelievePage
)

// Mutate disables a step from now on. It is for simulations.
func (q *Protocol) Mutate(m Mutation) { q.mutation = m }

// mutated reports whether this mutation is set.
func (q *Protocol) mutated(m Mutation) bool { return q.mutation == m }
