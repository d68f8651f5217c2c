// Package contender holds the processes that the bench starts beside the
// worker: the API that all of them post to, and the worker that most users
// would write themselves. Each is a program of its own, so that its CPU and
// memory are those of a whole process.
package contender
