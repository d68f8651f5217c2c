package settle

// Mutation leaves out a step of the protocol, to show that the simulation
// notices. Only a simulation can set one.
type Mutation uint8

// The mutations of the protocol's own code, by the rule that they break.
const (
	Intact Mutation = iota
	// NoInheritedDoubt: doubt is not inherited (R3).
	NoInheritedDoubt
	// NoLetterCheck: a redelivered failure is acknowledged without a look at its
	// letter (R4).
	NoLetterCheck
	// NoLease: a worker believes in its claim for as long as it likes (R7).
	NoLease
	// NoReconnectGrace: redelivered orders are posted at once after a reconnect (R7).
	NoReconnectGrace
	// PoisonByCount: deliveries that nothing explains count towards poison (R8).
	PoisonByCount
	// NoStorageGate: the gate stays open while results are refused (R10).
	NoStorageGate
	// RetryEverything: a refused result repeats the whole handling, POST included,
	// and not only the write (R10).
	RetryEverything
	// NoBeginNote: a redelivery is not noted before it is posted (R3).
	NoBeginNote
	// NoBarrier: whatever replica answers a batched read is believed (R2).
	NoBarrier
)

// Mutate leaves out a step from now on. It is meant for simulations.
func (q *Protocol) Mutate(m Mutation) { q.mutation = m }

func (q *Protocol) lacks(m Mutation) bool { return q.mutation == m }
