//go:build !linux

package embedded

// stagingRoot is a file system in memory; this system is not known to have one.
var stagingRoot string

func staysInMemory(string) bool { return false }

func ownFolder(string) bool { return false }
