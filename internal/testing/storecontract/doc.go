// Package storecontract states what the settle protocol relies on at its broker: the
// promises of settle.Store, and those of the deliveries that a worker pulls. One suite
// runs over JetStream (internal/queue) and over the simulation's model, so that neither
// changes alone. It is for tests.
//
//	contract.go   a broker under test, and the lists of promises
//	records.go    reads and conditional writes of records, and the marks
//	replicas.go   reads in batches that may be stale, and the barrier
//	letters.go    dead letters
//	intents.go    one intent for each subject, duplicates, removal, the waiting room
//	deliveries.go delivery, acknowledgement, NAK, the ack wait, and the pause
//	failures.go   a broker that stores nothing, one that is out of reach, and one that restarts
package storecontract
