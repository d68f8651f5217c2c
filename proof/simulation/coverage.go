package simulation

import "math/bits"

// Strikes says which faults struck at which steps of the protocol. The zero Strikes has
// none.
type Strikes [17]uint64

func strikeAt(f Fault, at Step) (word int, bit uint64) {
	n := int(f)<<5 | int(at)
	return n / 64, 1 << (n % 64)
}

// strike notes that a fault struck at a step.
func (s *Strikes) strike(f Fault, at Step) {
	word, bit := strikeAt(f, at)
	s[word] |= bit
}

// Has reports whether the fault struck at the step.
func (s *Strikes) Has(f Fault, at Step) bool {
	word, bit := strikeAt(f, at)
	return s[word]&bit != 0
}

// Count returns how many faults at a step there are.
func (s *Strikes) Count() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

func (s *Strikes) add(o Strikes) {
	for i, word := range o {
		s[i] |= word
	}
}
