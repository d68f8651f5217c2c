// Package sandbox is the sandbox program: its flags and settings around
// internal/sandbox.
package sandbox
