package submit

// Phase says how far a request came.
type Phase uint8

// The phases of a request, in their order.
const (
	// PhaseConnect: no connection (name, proxy, TCP, TLS); nothing was sent.
	PhaseConnect Phase = iota
	// PhaseSend: a connection was there, and provably nothing of the order was sent.
	PhaseSend
	// PhaseSent: some of the order may have been sent, and no answer's headers came.
	PhaseSent
	// PhaseCut: the answer's headers came, its body did not to the end (or not
	// within the bound of 256 KiB, or in an encoding that cannot be undone).
	PhaseCut
	// PhaseDone: the answer was read to its end.
	PhaseDone
)

var phaseNames = [...]string{"connect", "send", "sent", "cut", "done"}

// String gives the word used in metrics.
func (p Phase) String() string { return phaseNames[p] }

// Phases lists every phase, for label values and tables.
func Phases() []Phase { return []Phase{PhaseConnect, PhaseSend, PhaseSent, PhaseCut, PhaseDone} }

// maySent: some of the order may have been sent.
func (p Phase) maySent() bool { return p != PhaseConnect && p != PhaseSend }
