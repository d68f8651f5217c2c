package service

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// probeDescriptors returns an error if this process or the machine has no file
// descriptor left. The clients of the broker and the API report this as if nobody
// answered.
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
		return fmt.Errorf("this process has no file descriptor left (%w), so it cannot open connections: raise its limit (ulimit -n, LimitNOFILE in systemd) above twice ORDERPOST_CONCURRENCY, or lower that", err)
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("this machine has no file descriptor left (%w), so no program can open connections: look for the process that holds them", err)
	default:
		return nil // another error says nothing about descriptors
	}
}
