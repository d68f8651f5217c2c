// Package queue is access to JetStream. A [Queue] has a part for each reader: the
// connection ([Conn]), the streams ([Topology], [ExtentKeeper], [Census]), the waiting room
// ([WaitingRoom]), the key-value bucket ([Bucket]), many messages of one stream ([Stream]),
// and the parts of the settle protocol, whose Store it implements.
//
// Rules R1 to R15 in comments are those of docs/protocol.md.
//
// The connection:
//
//	config.go    where the broker is, and how the streams are laid out
//	queue.go     the Queue and its parts
//	connect.go, address.go, security.go  how the broker is reached
//	brokerversion.go  which versions of nats-server are refused, or warned of
//	survey.go    the versions of all servers
//	link.go      requests end when the connection breaks
//	errors.go    JetStream's answers, and what callers tell apart
//	denied.go    publishes that the NATS user may not make
//	holder.go    whether it breaks with the server that has the streams
//	outage.go    commands wait for a broker that is out of reach
//	claims.go    claims on deliveries are extended
//
// The streams:
//
//	table.go     which streams there are, and how one that exists may differ
//	topology.go, ensure.go  the loop that makes and checks them
//	missing.go, parts.go, revive.go  what is missing, and what is created again
//	consumer.go  the workers' consumer is made, checked and set back
//	extents.go, ends.go     whether a stream lost what its broker had confirmed
//	replicagap.go, replicawatch.go  whether a replica lost messages that others have
//	count.go, room.go, stats.go  their sizes, ages and limits, and failed writes
//	journal.go   the journal, without which orders go on
//
// The waiting room:
//
//	waiting.go, lanes.go, overdue.go  what waits, by lane, import and time
//	unlisted.go             what waits under a subject that the broker does not list
//	waitingcount.go         how much waits, and an import's waiting intents
//	feed.go                 what a feeder takes out of the waiting room
//
// Messages:
//
//	read.go, readone.go, inbox.go  single reads at the leader, batched reads
//	singly.go    large streams with holes, which batched reads make slow
//	delete.go    removes single messages
//	stream.go, extent.go    many messages of one stream, for package books
//	pull.go, pulling.go     intents for a worker
//	publish.go, publishmsgs.go  many intents at once: a producer's, a feeder's
//	publisher.go            many at once, of concurrent callers
//	jetstore.go, letterstore.go  settle.Store, and how records and letters are stored
//	writer.go, acks.go, flushmode.go  conditional writes, flushed in batches
//
// The key-value bucket that the programs share:
//
//	bucket.go, bucketread.go  its keys; package fleet gives most of them a meaning
//	bucketstores.go         whether the broker takes a value
package queue
