// Package contract tests what docs/producers.md, docs/schema, docs/asyncapi.yaml and
// examples/producers promise to programs in other languages. It tests the promises
// against the code and an embedded JetStream. It consists of tests only.
package contract
