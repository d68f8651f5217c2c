//go:build race

package patient

// UnderRace says that the race detector is on. It takes memory and time of its own.
const UnderRace = true
