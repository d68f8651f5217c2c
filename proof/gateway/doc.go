// Package gateway holds the HTTP door against its document: every exchange of its tests is
// validated by docs/openapi.yaml, and every example of the document is sent.
package gateway
