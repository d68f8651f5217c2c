//go:build !linux && !darwin && !freebsd

package embedded

import "errors"

func statDisk(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }
