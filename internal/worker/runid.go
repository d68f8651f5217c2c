package worker

import (
	"crypto/rand"
	"encoding/hex"
)

// newRunID names one stay in the fleet.
func newRunID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
