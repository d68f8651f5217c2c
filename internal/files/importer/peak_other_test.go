//go:build !linux

package importer

import "testing"

// forgetPeak and peak need Linux.
func forgetPeak(testing.TB) {}

func peak(testing.TB) float64 { return 0 }
