//go:build planted

package planted

import (
	"fmt"
	"os"
	"slices"
)

// selector is the environment variable that names the planted fault.
const selector = "ORDERPOST_PLANTED_FAULT"

var chosen = choose()

func choose() Fault {
	f := Fault(os.Getenv(selector))
	if f != "" && !slices.Contains(Faults(), f) {
		panic(fmt.Sprintf("%s: %q is none of %v", selector, f, Faults()))
	}
	return f
}

// Is reports whether this fault is planted.
func Is(f Fault) bool { return f == chosen }
