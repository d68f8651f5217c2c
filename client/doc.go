// Package client brings orders to orderpost and tells what became of them. It speaks NATS
// with the broker of a fleet: a NATS server, or the one inside a worker.
//
// [Connect] once for each process. [Client.Submit] returns when the broker has stored the
// order: from then on orderpost answers for it. [Client.Wait] returns its outcome. Many
// goroutines may use one Client. Their writes are confirmed together, so 64 goroutines
// store far more orders than one.
//
// # Repeating a submission
//
// Give each order an ID of your own and keep it with the order before you submit. After an
// [UnconfirmedError], a crash or a restart, submit again with the same ID: the order is
// stored at most once. [ErrFull] and [ErrUnavailable] mean that nothing was stored; repeat
// these, too. A corrected order needs a new ID.
//
// orderpost recognises an ID for as long as the order is pending or its result is kept, 30
// days by default. The ID of an order that waits for its turn or its time (Order.Lane,
// Order.NotBefore) is recognised for two minutes. Repeated later, it is stored again, and
// still posted once.
package client
