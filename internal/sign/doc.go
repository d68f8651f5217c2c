// Package sign signs orders for the API and verifies signatures, as section 5.2 of
// the API's contract ("Request signing") defines.
//
// The signature is the lower-case hex of HMAC-SHA256 over the string to sign. The
// key is the API secret's bytes. [order.Order.AppendStringToSign] builds the string
// to sign from the canonical body.
//
// The worker sends the canonical body. A JavaScript server that parses and
// serialises this body gets the same bytes. The tests prove this with a JavaScript
// engine.
//
// Callers pass in the time. The package does not know HTTP.
package sign
