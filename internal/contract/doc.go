// Package contract checks what docs/producers.md, docs/schema, docs/asyncapi.yaml
// and examples/producers promise to programs in other languages: against the
// code, and against an embedded JetStream. It has no code of its own.
package contract
