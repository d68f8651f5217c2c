package worker

import (
	"os"
	"sync"
)

// leaked is what the planted leak keeps (internal/planted).
var leaked struct {
	sync.Mutex
	orders int
	bytes  [][]byte
	files  []*os.File
}

// leak keeps 16 kB for an order, and for every other one a goroutine and a file. Only a
// build with planted faults contains it.
func leak() {
	leaked.Lock()
	defer leaked.Unlock()
	leaked.orders++
	block := make([]byte, 16<<10)
	for i := range block {
		block[i] = byte(i)
	}
	leaked.bytes = append(leaked.bytes, block)
	if leaked.orders%2 > 0 {
		return
	}
	go func() { select {} }()
	if f, err := os.Open(os.DevNull); err == nil {
		leaked.files = append(leaked.files, f)
	}
}
