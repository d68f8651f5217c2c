package queue

import "github.com/nats-io/nats.go/jetstream"

// For tests that also use package audit, which imports this one.
var (
	StartCluster = startCluster
	OpenCluster  = openCluster
	RunServer    = runServer
	RoutesOf     = (*routes).of
	RouteListens = (*routes).listens
)

func (q *Queue) JetStream() jetstream.JetStream { return q.Conn.js }
