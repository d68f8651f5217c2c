//go:build race

package worker_test

// crowdSize is less under the race detector, which is many times slower.
const crowdSize = 12
