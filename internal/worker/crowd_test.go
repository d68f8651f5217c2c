//go:build !race

package worker

// crowdSize is a large fleet.
const crowdSize = 50
