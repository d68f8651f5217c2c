// Package sandbox is the sandbox program: flags and environment around
// orderpost/internal/sandbox.
package sandbox
