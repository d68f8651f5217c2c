// Package sign signs orders for the API, and verifies signatures, by section
// 5.2 of the API's contract ("Request signing").
//
// The signature is the lower-case hex of HMAC-SHA256 over the string to sign,
// which [order.Order.AppendStringToSign] builds from the canonical body, under
// the API secret's bytes. The body that is sent is the canonical one, so that a
// JavaScript server which parses it and serialises it again gets the very bytes
// that were signed; the tests prove that against a JavaScript engine.
//
// Time is passed in. A signer knows nothing of HTTP.
package sign
