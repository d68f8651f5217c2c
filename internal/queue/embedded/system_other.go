//go:build !linux

package embedded

import "errors"

// stagingRoot is a file system in memory; this system is not known to have one.
const stagingRoot = ""

func stagingFolder(string) string { return "" }

func ownFolder(string) bool { return false }

func dirsync(string) error { return errors.ErrUnsupported }
