//go:build !unix

package enqueue

import "os"

// keepOwner does nothing: files have no numbered owners here.
func keepOwner(*os.File, os.FileInfo) {}
