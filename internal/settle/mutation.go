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
	// RemoveBeforeMove: a move removes the intent from the waiting room before it
	// publishes the intent (R13).
	RemoveBeforeMove
	// NoMoveCheck: a move does not ask whether the intent was moved and settled
	// before (R13).
	NoMoveCheck
	// PurgeBlocked: a move purges the waiting room up to the last intent that was
	// moved, though one before it stays (R13).
	PurgeBlocked
	// TrimOneTooMany: a trim takes the first intent that is not settled, too (R14).
	TrimOneTooMany
	// TrustFloor: a trim takes what the consumer counts as acknowledged, and reads no record (R14).
	TrustFloor
	// TrimDelivered: a trim takes what was delivered, before its result is certain
	// (R14).
	TrimDelivered
	// LeaveLetter: a trim leaves the letter of an accepted order whose delivery the broker
	// forgot (R14).
	LeaveLetter
	// PostWithdrawn: a worker posts what it knows to be cancelled (R15).
	PostWithdrawn
	// WallClockAlone: claims are measured by the wall clock alone (R7).
	WallClockAlone
	// MonotonicAlone: claims are measured by the monotonic clock alone (R7).
	MonotonicAlone
	// BelievePage: a listed letter is not read again before a person's act (R5).
	BelievePage
	// OutcomeAfterClaim: an outcome is written though the claim has ended (R7).
	OutcomeAfterClaim
	// NoRequestOnArrival: the claim on an intent that has waited in the stream is
	// not extended at once (R7).
	NoRequestOnArrival
	// NoNoteWithReplicas: under park, a first delivery is posted without a note although
	// there are replicas (R2).
	NoNoteWithReplicas
	// LeaveOverdue: nobody asks for a delivery whose time the broker put into the future (R9).
	LeaveOverdue
	// WaitByClock: a delay, or another's attempt, ends when the reader's clock says so, however
	// long that takes (R9).
	WaitByClock
	// NoSecondLook: the record is not read again before an attempt (R7).
	NoSecondLook
)
