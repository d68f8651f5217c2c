// Package fleettest is for tests alone: a worker of the fleet that posts nothing, and settles
// what people cancel.
package fleettest
