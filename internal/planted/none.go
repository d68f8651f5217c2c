//go:build !planted

package planted

// Is reports whether this fault is planted: never.
func Is(Fault) bool { return false }
