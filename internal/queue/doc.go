// Package queue is access to JetStream. A [Queue] has a part for each reader: the
// connection ([Conn]), the streams ([Topology], [ExtentKeeper], [Census]), the waiting room
// ([WaitingRoom]), the key-value bucket ([Bucket]), many messages of one stream ([Stream]),
// and the parts of the settle protocol, whose Store it implements.
//
// Rules R1 to R15 in comments are those of docs/protocol.md. A reader begins at the top:
//
//	config.go    where the broker is, how it is joined, how the streams are laid out
//	table.go     which streams there are, how one that exists may differ, what is done if some are missing
//
// The connection:
//
//	connect.go   how the broker is reached, and what its answers mean
//	outage.go    commands wait for a broker that is out of reach
//	denied.go    publishes that the NATS user may not make
//	brokerversion.go  which versions of nats-server are refused, or warned of
//
// Messages of one stream:
//
//	read.go      batched reads
//	single.go    single reads at the leader, many of them at once, and removals
//	stream.go, walk.go  many messages of one stream, for those who read all of them
//	acks.go, pipeline.go  messages are published, in atomic batches or singly
//	writer.go    conditional writes, flushed together
//	bucket.go    the key-value bucket that the programs share; package fleet gives most keys a meaning
//
// The streams:
//
//	topology.go, consumer.go  they are made and checked, with the workers' consumer
//	parts.go     what is missing, and what is created again
//	extents.go   whether a stream lost what its broker had confirmed
//	replicas.go  whether a replica lost messages that others have
//	retention.go results are forgotten after the retention (R11)
//	count.go     their sizes, ages and limits
//	backup.go    all of them in one file, and back
//
// The waiting room:
//
//	waiting.go   what waits under which subject: lane, import and time
//	lanes.go     what waits in a lane, for people
//
// The Queue:
//
//	queue.go     the Queue and its parts, and the journal
//	pull.go      intents for a worker
//	claims.go    claims are extended, and end if the server that has the streams was killed
//	publish.go   many intents at once: a producer's, those of concurrent callers, a feeder's
//	jetstore.go, letterstore.go  settle.Store, and how records and letters are stored
package queue
