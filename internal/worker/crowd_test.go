//go:build !race

package worker_test

// crowdSize is a large fleet.
const crowdSize = 50
