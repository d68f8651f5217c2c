//go:build !linux

package embedded

import "testing"

func canDirsync(*testing.T, string) bool { return false }
func hasDirsync(*testing.T, string) bool { return false }
