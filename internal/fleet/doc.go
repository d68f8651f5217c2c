// Package fleet lets the workers of one installation act as one: each tells the
// others that it is present, all obey a person's hold and limit, they share the
// rate limit. Workers and persons talk through keys of the queue's bucket alone.
//
// What the bucket says, for workers and commands:
//
//	control.go   what persons set: holds, limits
//	steer.go     the same, if nothing changed since they looked
//	lanes.go     the weights of lanes
//	cancellations.go  what persons withdraw
//	presence.go  who is there
//	view.go      all of it at one moment
//	door.go      which processes let orders in and outcomes out
//	lease.go     which process leads at what one of them does for all
//	identity.go, claim.go  the API that the fleet posts to
//
// What people are told of it (look.go):
//
//	nothingsent.go  one sentence, if no worker sends
//	pace.go         how long the API takes for its answers, and what holds the rate
//	absent.go       workers that give no sign of life, and what becomes of their orders
//	reasons.go      why workers do not send
//
// One worker's part in it:
//
//	member.go    its rounds: read, obey, announce
//	obey.go      hold, API, throttle and resume, applied to the gate
//	announce.go  its signs of life, and its leaving
//	clock.go     a note if its clock and the broker's disagree
//	share.go     its share of the rate limit (R12, docs/protocol.md#r12)
//
// Each worker probes the API for itself while it is down.
package fleet
