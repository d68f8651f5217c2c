//go:build !linux

package embedded

// stagingRoot is a file system in memory; this system is not known to have one.
const stagingRoot = ""

func stagingFolder(string) string { return "" }

func ownFolder(string) bool { return false }
