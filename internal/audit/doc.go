// Package audit tells whether the books balance: each intent that was stored has an outcome, waits, or is named
// (R11, docs/protocol.md#r11). It reads while orders flow, and says so where it cannot be sure.
//
//	audit.go  the result, and how often it looks
//	look.go   one look at the streams while they are being written
//	chunks.go results are read in chunks, or taken from the last audit where they are the same
//	again.go  orders that changed meanwhile, and contradictions, are read again
//	say.go    its account, for people
package audit
