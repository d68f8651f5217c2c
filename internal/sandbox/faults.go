package sandbox

// Fault is what went wrong with one attempt, on purpose.
type Fault uint8

// The faults, by the names of their settings.
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
	faultCount
)

var faultWords = []string{"none", "503", "429", "drop-before", "503-after", "drop-after", "garbage", "slow", "other"}

func (f Fault) String() string { return wordAt(faultWords, int(f)) }

// before tells whether the fault strikes before the order is looked at, so
// that nothing is created.
func (f Fault) before() bool {
	return f == FaultUnavailable || f == FaultTooMany || f == FaultDropBefore || f == FaultOther
}

// What a number is drawn for. Each purpose has numbers of its own, so that
// changing one rate leaves the draws for all others as they are.
const (
	drawRefuse uint64 = iota + 100
	drawAmong
	drawJitter
	drawGarbage
)

// draws gives the random numbers of one attempt of one order.
type draws struct{ base uint64 }

func attemptDraws(seed, orderHash uint64, attempt uint32) draws {
	return draws{mix(mix(seed^orderHash) + uint64(attempt))}
}

func (d draws) bits(purpose uint64) uint64 { return mix(d.base ^ mix(purpose)) }

// unit is a number from 0 up to, but not including, 1.
func (d draws) unit(purpose uint64) float64 { return float64(d.bits(purpose)>>11) / (1 << 53) }

// hits gives the fault that the attempt meets, and whether it is slow.
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

// refuses tells whether the order is one of those refused for good.
func (f *Faults) refuses(seed, orderHash uint64) bool {
	return f.Refuse > 0 && attemptDraws(seed, orderHash, 0).unit(drawRefuse) < f.Refuse
}

// hashOrderNo is FNV-1a: the same in every process, unlike hash/maphash, so
// that a seed means the same in the next run.
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

// FaultKinds lists every fault, for tables.
func FaultKinds() []Fault {
	all := make([]Fault, 0, faultCount)
	for f := NoFault + 1; f < faultCount; f++ {
		all = append(all, f)
	}
	return all
}
