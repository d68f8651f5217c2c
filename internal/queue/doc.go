// Package queue is access to JetStream. A [Queue] has a part for each reader: the
// connection ([Conn]), the streams ([Topology], [ExtentKeeper], [Census]), the waiting room
// ([WaitingRoom]), the key-value bucket ([Bucket]), many messages of one stream ([Stream]),
// and the parts of the settle protocol, whose Store it implements.
//
// Rules R1 to R15 in comments are those of docs/protocol.md. In the following order, a file
// uses those before it. Only the files that Config, Conn and Queue consist of use one another.
//
// What an installation is:
//
//	config.go, missing.go   where the broker is, how the streams are laid out, what is done if some are missing
//	address.go, security.go how the broker is found and joined
//	table.go     which streams there are, and how one that exists may differ
//
// The connection:
//
//	link.go      requests end when the connection breaks
//	errors.go    JetStream's answers, and what callers tell apart
//	connect.go   how the broker is reached
//	outage.go    commands wait for a broker that is out of reach
//	denied.go    publishes that the NATS user may not make
//	brokerversion.go, survey.go  which versions of nats-server are refused, or warned of
//
// Messages of one stream:
//
//	inbox.go, read.go, readone.go  batched reads, single reads at the leader
//	delete.go    removes single messages
//	singly.go    large streams with holes, which batched reads make slow
//	stream.go, extent.go    many messages of one stream, for package books
//	ends.go      whether a stream gave a sequence out again
//	acks.go, pipeline.go  messages are published, in atomic batches or singly
//	writer.go    conditional writes, flushed together
//
// The key-value bucket that the programs share:
//
//	bucket.go, bucketread.go  its keys; package fleet gives most of them a meaning
//
// The streams:
//
//	topology.go, consumer.go, ensure.go  they are made and checked, with the workers' consumer
//	retention.go            results are forgotten after the retention (R11)
//	extents.go              whether a stream lost what its broker had confirmed
//	parts.go, revive.go     what is missing, and what is created again
//	count.go, room.go       their sizes, ages and limits
//	replicagap.go, replicawatch.go  whether a replica lost messages that others have
//
// The waiting room:
//
//	waiting.go              what waits under which subject: lane, import and time
//	waitingimport.go        what waits of an import
//	feed.go                 what a feeder takes out of the waiting room
//	lanes.go, overdue.go    what waits in a lane, and what waits for a time that is over
//	unlisted.go             what waits under a subject that the broker does not list
//
// The Queue:
//
//	claims.go    claims on deliveries are extended
//	holder.go    whether the connection breaks with the server that has the streams
//	queue.go     the Queue and its parts
//	pulling.go, pull.go     intents for a worker
//	publish.go   many intents at once: a producer's, those of concurrent callers, a feeder's
//	jetstore.go, letterstore.go  settle.Store, and how records and letters are stored
//	journal.go   the journal, without which orders go on
//	stats.go     failed writes
package queue
