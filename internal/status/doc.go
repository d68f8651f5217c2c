// Package status says how orders stand: one by its name with what a person can do about it, many at once, those
// that wait and those that are retried, and those of an import. It reads the streams and writes nothing.
//
//	status.go     what is stored about orders, many at once or one by its name
//	advice.go     what a person can do about an order
//	pending.go    the orders in the queue, with their last answers
//	imported.go   the orders of an import
//	room.go       what waits, by lane and import
//	shellword.go  quotes a word for the commands that advice names
package status
