package submit

// Phase says how far a request got.
type Phase uint8

// The phases of a request, in their order.
const (
	// PhaseConnect: there was no connection (name, proxy, TCP or TLS). Nothing was sent.
	PhaseConnect Phase = iota
	// PhaseSend: there was a connection, but no byte of the request was sent.
	PhaseSend
	// PhaseSent: part of the request may have been sent. No answer arrived.
	PhaseSent
	// PhaseCut: the answer's headers arrived, but not the whole body, or the body is
	// longer than 256 KiB or has an unknown encoding.
	PhaseCut
	// PhaseDone: the answer was read to its end.
	PhaseDone
)

var phaseNames = [...]string{"connect", "send", "sent", "cut", "done"}

// String returns the word used in traces.
func (p Phase) String() string { return phaseNames[p] }

// maySent reports whether part of the request may have been sent.
func (p Phase) maySent() bool { return p != PhaseConnect && p != PhaseSend }
