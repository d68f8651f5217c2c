package patient

import "runtime"

// Bubbles has the race detector judge a package's tests on one processor, because they live in
// synctest bubbles. Call it in TestMain. On two, Go 1.26.8 may crash: two goroutines of a bubble
// that find timers due at once use one race context. The detector judges what happens before what,
// for which one processor is enough.
func Bubbles() {
	if UnderRace {
		runtime.GOMAXPROCS(1)
	}
}
