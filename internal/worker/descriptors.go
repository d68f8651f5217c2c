package worker

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// probeDescriptors says that this process, or the machine, has no file
// descriptor left: neither broker nor API can be connected to then, and their
// clients tell that as if nobody answered.
func probeDescriptors() error {
	f, err := os.Open(os.DevNull)
	if err == nil {
		return f.Close()
	}
	return describeDescriptors(err)
}

func describeDescriptors(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("this process has no file descriptor left (%w), so it connects to nothing: raise its limit (ulimit -n, LimitNOFILE in systemd) above twice ORDERPOST_CONCURRENCY, or lower that", err)
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("this machine has no file descriptor left (%w), so nothing can be connected to: look for the process that holds them", err)
	default:
		return nil // not what is asked here
	}
}
