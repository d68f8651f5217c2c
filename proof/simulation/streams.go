package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// streamID names a generator of random numbers: that of one worker's process, of one
// person, of one fault of the plan. A change in one stream leaves the numbers of the
// others as they are, so an edited schedule differs where its edit is.
type streamID uint32

// The kinds of streams.
const (
	ofWorld    = iota
	ofOrder    // an order: its kind, and what producers submit
	ofProducer // order, submission, process
	ofWorker   // worker, process
	ofPerson   // person, process
	ofTrouble  // fault, number
	ofFeeder   // feeder, process
	ofTrimmer  // worker, process
)

var streamNames = [...]string{"world", "order", "producer", "worker", "person", "trouble", "feeder", "trimmer"}

func streamOf(kind, a, b, c int) streamID {
	return streamID(kind<<24 | (a&0xff)<<16 | (b&0xff)<<8 | min(c, 0xff))
}

// String returns the name that edits use, such as worker.0.1.0.
func (id streamID) String() string {
	return fmt.Sprintf("%s.%d.%d.%d", streamNames[id>>24], id>>16&0xff, id>>8&0xff, id&0xff)
}

func parseStream(text string) (streamID, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return 0, fmt.Errorf("stream %q: want four parts, such as worker.0.1.0", text)
	}
	var n [4]int
	for i := range n {
		if i == 0 {
			n[0] = -1
			for kind, name := range streamNames {
				if name == parts[0] {
					n[0] = kind
				}
			}
			if n[0] < 0 {
				return 0, fmt.Errorf("stream %q: %q is none of %s", text, parts[0], strings.Join(streamNames[:], ", "))
			}
			continue
		}
		v, err := strconv.ParseUint(parts[i], 10, 8)
		if err != nil {
			return 0, fmt.Errorf("stream %q: %w", text, err)
		}
		n[i] = int(v)
	}
	return streamOf(n[0], n[1], n[2], n[3]), nil
}

// stream is the state of one generator.
type stream struct {
	id     streamID
	src    rand.PCG
	faults uint32 // that struck or were dropped
}

// stream returns the stream with this ID. An older schedule has one stream for
// everything.
func (e *engine) stream(id streamID) *stream {
	if e.schedule.Old {
		return e.cur
	}
	for _, s := range e.streams {
		if s.id == id {
			return s
		}
	}
	if len(e.slab) == 0 {
		e.slab = make([]stream, 16)
	}
	s := &e.slab[0]
	e.slab = e.slab[1:]
	s.id = id
	s.src.Seed(mix(e.schedule.Seed), mix(uint64(id)))
	e.streams = append(e.streams, s)
	return s
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Uint64 implements rand.Source with the current stream.
func (e *engine) Uint64() uint64 { return e.cur.src.Uint64() }

// in runs f with the numbers of a stream.
func (e *engine) in(id streamID, f func()) {
	outer := e.cur
	e.cur = e.stream(id)
	f()
	e.cur = outer
}
