//go:build !linux

package smalldisk

import "errors"

// Mount is there for Linux alone.
func Mount(string, int64) (*Disk, error) { return nil, errors.ErrUnsupported }

// Resize is there for Linux alone.
func (d *Disk) Resize(int64) error { return errors.ErrUnsupported }

// Unmount is there for Linux alone.
func (d *Disk) Unmount() error { return errors.ErrUnsupported }
