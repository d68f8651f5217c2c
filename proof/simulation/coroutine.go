package simulation

import "iter"

// coroutine runs the bodies of procs, one after another. A new goroutine would have to
// grow its stack again for each.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	body  func()
}

func newCoroutine() *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for {
			c.body()
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// coroutines keeps the idle coroutines of one goroutine that plays schedules.
type coroutines struct{ idle []*coroutine }

func (cs *coroutines) get() *coroutine {
	last := len(cs.idle) - 1
	if last < 0 {
		return newCoroutine()
	}
	c := cs.idle[last]
	cs.idle = cs.idle[:last]
	return c
}

func (cs *coroutines) put(c *coroutine) {
	c.body = nil
	cs.idle = append(cs.idle, c)
}

// end ends the idle coroutines.
func (cs *coroutines) end() {
	for _, c := range cs.idle {
		c.stop()
	}
	cs.idle = nil
}
