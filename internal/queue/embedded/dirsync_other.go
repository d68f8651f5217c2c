//go:build !linux

package embedded

import "errors"

func dirsync(string) error { return errors.ErrUnsupported }
