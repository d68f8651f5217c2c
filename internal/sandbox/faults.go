package sandbox

// Fault is a fault that the server injects into an attempt.
type Fault uint8

// The faults, named like their settings.
const (
	NoFault Fault = iota
	FaultUnavailable
	FaultTooMany
	FaultDropBefore
	FaultUnavailableAfter
	FaultDropAfter
	FaultGarbage
	FaultSlow
	FaultOther
	FaultTold
	FaultToldAfter
	FaultLate
	faultCount
)

var faultWords = []string{"none", "503", "429", "drop-before", "503-after", "drop-after", "garbage", "slow", "other", "told", "told-after", "late"}

func (f Fault) String() string { return wordAt(faultWords, int(f)) }

// before reports whether the fault occurs before the server reads the order, and thus
// creates nothing.
func (f Fault) before() bool {
	return f == FaultUnavailable || f == FaultTooMany || f == FaultDropBefore || f == FaultOther || f == FaultTold || f == FaultLate
}

// The purposes of random numbers. Each purpose has its own numbers, so changing one
// rate does not change the draws for the others.
const (
	drawRefuse uint64 = iota + 100
	drawAmong
	drawJitter
	drawGarbage
)

// draws is the source of the random numbers for one attempt of one order.
type draws struct{ base uint64 }

func attemptDraws(seed, orderHash uint64, attempt uint32) draws {
	return draws{mix(mix(seed^orderHash) + uint64(attempt))}
}

func (d draws) bits(purpose uint64) uint64 { return mix(d.base ^ mix(purpose)) }

// unit returns a number in [0, 1).
func (d draws) unit(purpose uint64) float64 { return float64(d.bits(purpose)>>11) / (1 << 53) }

// hits returns the fault that the attempt meets and whether its answer is slow.
func (f *Faults) hits(d draws) (kind Fault, slow bool) {
	rates := [...]struct {
		kind Fault
		rate float64
	}{
		{FaultUnavailable, f.Unavailable},
		{FaultTooMany, f.TooMany},
		{FaultDropBefore, f.DropBefore},
		{FaultUnavailableAfter, f.UnavailableAfter},
		{FaultDropAfter, f.DropAfter},
		{FaultGarbage, f.Garbage},
		{FaultOther, f.Other},
		{FaultTold, f.ToldBefore},
		{FaultToldAfter, f.ToldAfter},
		{FaultLate, f.Late},
	}
	var hit [len(rates)]Fault
	n := uint64(0)
	for _, r := range rates {
		if r.rate > 0 && d.unit(uint64(r.kind)) < r.rate {
			hit[n] = r.kind
			n++
		}
	}
	if n > 0 {
		kind = hit[d.bits(drawAmong)%n]
	}
	return kind, f.Slow > 0 && d.unit(uint64(FaultSlow)) < f.Slow
}

// refuses reports whether the server refuses the order for good.
func (f *Faults) refuses(seed, orderHash uint64) bool {
	return f.Refuse > 0 && attemptDraws(seed, orderHash, 0).unit(drawRefuse) < f.Refuse
}

// hashOrderNo is FNV-1a. Unlike hash/maphash it is the same in every process, so a
// seed reproduces a run.
func hashOrderNo(orderNo []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range orderNo {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// FaultKinds lists every fault.
func FaultKinds() []Fault {
	all := make([]Fault, 0, faultCount)
	for f := NoFault + 1; f < faultCount; f++ {
		all = append(all, f)
	}
	return all
}
