// Package gateway is the HTTP door: programs POST orders and GET what became of them.
// docs/openapi.yaml describes it for machines, docs/gateway.md for people.
//
//	config.go      settings
//	server.go      the HTTP server, its start and its end
//	connections.go how many there can be (openfiles_unix.go, openfiles_other.go)
//	serve.go       what happens to every request: who asks, may it, has it room
//	clients.go     the file of clients: names, scopes, tokens
//	limits.go      what one client can take: a rate, requests at once, waits at once
//	recheck.go     ends what is under way for a client that is not known any more
//	problem.go     every answer that is not 2xx (RFC 9457), and the labels of metrics
//	submit.go      POST of one order: headers, key, body, span
//	stream.go      POST of many, one on each line
//	order.go       GET and DELETE of one order
//	feed.go        GET of outcomes: lines, or server-sent events
//	imports.go     files of orders: POST, GET, DELETE
//
// An answer with a status 2xx to a POST says that the broker confirmed the order. The
// package keeps no orders: what it was told and could not store, it refuses.
package gateway
