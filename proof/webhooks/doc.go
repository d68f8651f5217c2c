// Package webhooks holds the tests of `orderpost notify` that need real processes, and a
// receiver that is not ours: it verifies with the library of Standard Webhooks.
package webhooks
