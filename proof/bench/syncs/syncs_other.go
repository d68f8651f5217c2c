//go:build !linux

package syncs

import (
	"errors"
	"fmt"
	"os/exec"
)

var errLinuxOnly = fmt.Errorf("fsyncs are counted on Linux only: %w", errors.ErrUnsupported)

// Exec fails: see Watch.Start.
func Exec([]string) error { return errLinuxOnly }

// Start fails: only Linux asks before an fsync.
func (w *Watch) Start(*exec.Cmd) error { return errLinuxOnly }
