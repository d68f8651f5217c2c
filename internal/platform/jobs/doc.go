// Package jobs runs what outlives the request that started it: audits, checks and imports
// of uploads, acts on groups of dead letters, cancellations. A Job has a person who
// started it, a progress and an end, and can be stopped. It is forgotten when the program
// ends: what a job did is in the streams, in the journal and beside the upload.
//
//	jobs.go  the registry, the job, its states and its progress
package jobs
