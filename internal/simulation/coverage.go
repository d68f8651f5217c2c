package simulation

import "math/bits"

// Coverage counts what schedules reached. It has three parts, each a set of known size:
//
//   - states: what holds for one order at one moment (orderState),
//   - strikes: a fault, and the step of the protocol at which it struck,
//   - pairs: two strikes in one schedule, in their order.
type Coverage struct {
	seen []uint64
	// States, Strikes and Pairs are how many were reached.
	States, Strikes, Pairs int
}

// Features are numbers: first the strikes, then the pairs, then the states.
const (
	strikeBits  = 10
	stateBits   = 23
	firstPair   = 1 << strikeBits
	firstState  = firstPair + 1<<(2*strikeBits)
	allFeatures = firstState + 1<<stateBits
)

// NewCoverage returns an empty Coverage. It takes a megabyte and never grows.
func NewCoverage() *Coverage { return &Coverage{seen: make([]uint64, allFeatures/64+1)} }

func (c *Coverage) has(f uint32) bool { return c.seen[f/64]&(1<<(f%64)) != 0 }

// add adds features and returns how many were new.
func (c *Coverage) add(fs []uint32) (fresh int) {
	for _, f := range fs {
		if c.has(f) {
			continue
		}
		c.seen[f/64] |= 1 << (f % 64)
		fresh++
		switch {
		case f >= firstState:
			c.States++
		case f >= firstPair:
			c.Pairs++
		default:
			c.Strikes++
		}
	}
	return fresh
}

// All returns how many features were reached.
func (c *Coverage) All() int { return c.States + c.Strikes + c.Pairs }

// reached collects what one schedule reaches for the first time.
type reached struct {
	known   *Coverage // only read; nil = nobody wants to know
	fresh   []uint32
	strikes []uint32 // of this schedule, each once
}

func (r *reached) note(f uint32) {
	if r.known.has(f) {
		return
	}
	for _, have := range r.fresh {
		if have == f {
			return
		}
	}
	r.fresh = append(r.fresh, f)
}

// maxPairs bounds the strikes of one schedule that are paired.
const maxPairs = 48

// strike notes that a fault struck at a step.
func (r *reached) strike(f Fault, at Step) {
	if r.known == nil {
		return
	}
	s := uint32(f)<<5 | uint32(at)
	for _, have := range r.strikes {
		if have == s {
			return
		}
	}
	r.note(s)
	if len(r.strikes) == maxPairs {
		return
	}
	for _, earlier := range r.strikes {
		r.note(firstPair + earlier<<strikeBits + s)
	}
	r.strikes = append(r.strikes, s)
}

// state notes the state of an order.
func (w *world) state(no string) {
	if w.e.reached.known != nil {
		w.e.reached.note(firstState + w.orderState(no))
	}
}

// orderState returns what holds for an order at this moment, in 23 bits.
func (w *world) orderState(no string) uint32 {
	b := w.broker
	var s uint32
	put := func(width int, v int) { s = s<<width | uint32(min(v, 1<<width-1)) }
	flag := func(is bool) {
		if s <<= 1; is {
			s |= 1
		}
	}
	in := b.bySubj[subjectPrefix+no]
	id := ""
	if entry := b.results[no]; entry == nil {
		put(8, 0)
	} else {
		r := entry.rec
		id = r.IntentID
		if out := r.Outcome(); out != 0 {
			put(4, 5+int(out))
		} else {
			put(4, 1+int(r.Note))
		}
		flag(r.Unsure)
		flag(r.Allowed)
		flag(r.By != "")
		flag(r.Dropped)
	}
	switch { // the intent
	case in == nil:
		put(2, 0)
	case in.id == id:
		put(2, 1)
	default:
		put(2, 2)
	}
	switch l := b.letters[no]; { // the letter
	case l == nil:
		put(2, 0)
	case l.Conflict:
		put(2, 1)
	case l.IntentID == id:
		put(2, 2)
	default:
		put(2, 3)
	}
	put(2, w.api.created[no]+bits.Len8(b2i(w.api.foreign[no])))
	put(2, w.api.underway[no])
	count, owner := 0, 0
	if in != nil {
		if p := b.pending[in.msg.Seq]; p != nil {
			count = int(p.count)
			if h, claimed := w.witness.owners[p.claim]; claimed {
				owner = 1
				switch {
				case h == nil || h.dead:
					owner = 3
				case h.frozen > w.e.at || h.cut || !h.up:
					owner = 2
				}
			}
		}
	}
	put(2, count)
	put(2, owner)
	flag(b.full)
	flag(b.life > 0)
	flag(w.cfg.Policy == 0)
	return s
}

func b2i(is bool) uint8 {
	if is {
		return 1
	}
	return 0
}
