// Package gateway is the HTTP door: programs POST orders and GET what became of them.
// docs/openapi.yaml describes it for machines, docs/gateway.md for people.
//
//	config.go    settings
//	clients.go   the file of clients: names, scopes, tokens, limits
//	recheck.go   ends what is under way for a client that is not known any more
//	limits.go    what one client can take: a rate, requests at once, waits at once
//	crowd.go     how many connections there can be (afford_unix.go, afford_other.go)
//	metrics.go   the labels of its metrics
//	server.go    the HTTP server, its start and its end
//	serve.go     what happens to every request: who asks, may it, has it room
//	problem.go   every answer that is not 2xx (RFC 9457)
//	failure.go   the problem that an error of the door is
//	submission.go the order in a request: headers, key, body
//	submit.go    POST of one order
//	stream.go    POST of many, one on each line
//	trace.go     the span of an order at the door
//	outcome.go   what an outcome looks like
//	order.go     GET and DELETE of one order
//	imports.go   files of orders: POST, GET, DELETE
//	feed.go      GET of outcomes: lines, or server-sent events
//
// An answer with a status 2xx to a POST says that the broker confirmed the order. The
// package keeps no orders: what it was told and could not store, it refuses.
package gateway
