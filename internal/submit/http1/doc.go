// Package http1 sends requests to the API over HTTP/1.1 (RFC 9112), each at most once,
// and says of each how far it got. It knows no attempts, retry budgets, signatures or
// verdicts.
//
//	Client     client.go     Post and Get: an idle connection or a new one, one request, its answer
//	Order      client.go     the bytes of a request
//	Exchange   exchange.go   what came of it: the answer, or how far the request got
//	Reason     exchange.go   why there is no answer, in words (handshake.go for TLS)
//	dial       dial.go       name, proxy (proxy.go), TCP, TLS
//	send       conn.go       one write; then the wait for the answer
//	read       read.go       the answer's headers and body, up to answer.MaxBody bytes
//	put, take  conn.go       idle connections
//	Abandon    abandon.go    one request whose answer nobody reads, to learn what the API does with it
//	checkIdle  conn.go       did the server close it, or send something unasked? (peek_unix.go, peek_other.go, handshake.go)
//
// # Was anything sent?
//
// A request without an answer had no effect in three cases:
//
//   - There was no connection yet: PhaseConnect.
//   - The socket took no byte of it: PhaseSend. The request is alone on its connection until
//     its answer is read, and the socket counts bytes below TLS.
//   - The server refused the client's certificate, of which TLS 1.3 tells after the request may have been sent
//     (handshake.go): PhaseConnect, too.
//
// Every other request without an answer may have had one. No request is sent twice: taking
// a connection, writing and reading are separate steps, and none is repeated. That is why
// the package uses fasthttp's encoder and parser, but not its client.
//
// Before an idle connection is used again, checkIdle looks at it without waiting. It
// rejects a connection that the server closed or that holds an unsolicited answer. On
// TLS it also handles session tickets and key updates, and notices an incomplete record.
// One case remains: the server closes the connection at the moment of the
// write. The result is PhaseSend if the write failed, and PhaseSent if the kernel took the
// bytes first. To make this rare, the client closes idle connections after
// Config.IdleTimeout, which should be shorter than the server's own: common servers close
// them after 5 s or more.
package http1
