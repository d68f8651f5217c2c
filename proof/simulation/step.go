package simulation

// Step is a step of the protocol, by its name in docs/protocol.md.
type Step uint8

// The steps of a delivery, and those of producers and persons.
const (
	StepIdle Step = iota
	StepPull
	StepMark
	StepCheck
	StepNote
	StepGate
	StepPost
	StepRecord
	StepLetter
	StepAck
	StepGiveBack
	StepExtend
	StepPublish
	StepLookup // a person or a producer reads
	StepTrim
)

var stepNames = [...]string{"idle", "pull", "mark", "check", "note", "gate", "POST", "record", "letter", "ack", "give back", "extend", "publish", "look up", "trim"}

// String returns the step's name.
func (s Step) String() string { return stepNames[s] }

// Fault is a kind of fault.
type Fault uint8

// The kinds of faults. Those of the API follow FaultAPI in the order of apiFault.
const (
	FaultNone Fault = iota
	FaultLostRequest
	FaultLostAnswer
	FaultSlow
	FaultGateBusy
	FaultCalledBack
	FaultCrash
	FaultFreeze
	FaultSuspend
	FaultCut
	FaultPartition
	FaultDrain
	FaultClock
	FaultBrokerKilled
	FaultBrokerForgets
	FaultLag
	FaultDiskFull
	FaultLeaderStops
	FaultLeaderSilent
	FaultStalePage
	FaultConsumerLeader
	FaultMisread
	FaultBrokerClock
	FaultFloor
	FaultAPI  // apiUnreachable
	lastFault = FaultAPI + Fault(apiIsSlow-apiUnreachable)
)

var faultNames = [...]string{"none", "request lost", "answer lost", "slow message", "slow gate", "refusal called back", "crash", "freeze", "suspend", "connection lost",
	"partition", "drain", "clock jump", "broker killed", "broker forgets", "follower lags", "disk full", "leader stops", "no leader", "stale page", "consumer's leader changes", "acceptance misread", "broker's clock set", "consumer edited",
	"API unreachable", "API throttles", "API denies", "API fails", "API creates and fails", "API refuses", "API proves nothing", "API request lost", "API answer lost", "API slow"}

// String returns the fault's name.
func (f Fault) String() string { return faultNames[f] }

// happens reports whether a fault that was drawn happens: unless an edit drops it.
func (e *engine) happens() bool {
	s := e.cur
	s.faults++
	if len(e.schedule.Edits) > 0 && e.schedule.dropped(s.id, s.faults) {
		return false
	}
	if e.kept != nil {
		*e.kept = append(*e.kept, Edit{Op: editDrop, Stream: s.id, At: s.faults})
	}
	return true
}

// strikes draws whether a fault happens to the running process.
func (e *engine) strikes(f Fault, p float64) bool {
	if !e.chance(p) || !e.happens() {
		return false
	}
	e.reached.strike(f, e.step0())
	return true
}

// step0 returns the step of the running process.
func (e *engine) step0() Step {
	if e.running == nil {
		return StepIdle
	}
	return e.running.step
}

// step returns the furthest step at which the process is.
func (h *host) step() (most Step) {
	for _, p := range h.procs {
		if p.step <= StepExtend {
			most = max(most, p.step)
		} else {
			most = p.step
		}
	}
	return most
}
