// Package smalldisk mounts disks of a few megabytes, for tests and chaos: they
// fill up, and are enlarged. That needs Linux and the right to mount.
package smalldisk

// Disk is a mounted file system in memory.
type Disk struct{ dir string }
