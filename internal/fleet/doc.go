// Package fleet lets the workers of one installation act as one: each tells the
// others that it is present, all obey a person's hold and limit, they share the
// rate limit, and one worker probes the API for all while it is down. Workers and
// persons talk through keys of the queue's bucket alone.
//
// What the bucket says, for workers and commands:
//
//	control.go   what persons set: holds, limits
//	presence.go  who is there
//	view.go      all of it at one moment, and what is restored into a lost bucket
//	identity.go, claim.go  the API that the fleet posts to
//	incident.go  what stops the whole fleet, and who probes
//
// One worker's part in it:
//
//	member.go    its rounds: read, obey, announce
//	obey.go      hold, API, throttle and resume, applied to the gate
//	announce.go  its signs of life, and its leaving
//	share.go     its share of the rate limit (R12, docs/protocol.md#r12)
//	prober.go    one worker probes, the others wait
package fleet
