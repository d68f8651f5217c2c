// Package acts does what a person asked for in one step and many orders must go
// through: as a job that outlives the request which started it, says how far it
// is, and can be stopped.
//
//	jobs.go  the registry of jobs
package acts
