//go:build !linux

package cli

import "math"

// addresses returns how many bytes of address space the process may have.
func addresses() uint64 { return math.MaxUint64 }
