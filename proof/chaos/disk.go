package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"orderpost/internal/testing/smalldisk"
)

// diskSize is the initial size of the broker's small disk, and how much a person adds
// each time it was full.
const (
	diskSize   = 96 << 20
	diskGrowth = 32 << 20
)

// storeDir returns the folder of a broker's files.
func (r *rig) storeDir(node string) string { return filepath.Join(r.dir, "store-"+node) }

// diskDir is where the small disk is mounted.
func (r *rig) diskDir() string {
	if r.o.broker == embeddedBroker {
		return r.dataDir()
	}
	return r.storeDir("node-1")
}

// mountDisk mounts a small disk for the broker if the run fills it. If this user may
// not mount one, it says so, and the run uses full streams instead.
func (r *rig) mountDisk() error {
	if !slices.ContainsFunc(r.o.chosen, func(f fault) bool { return f.name == "small-disk" }) {
		return nil
	}
	if err := os.MkdirAll(r.diskDir(), 0o700); err != nil {
		return err
	}
	disk, err := smalldisk.Mount(r.diskDir(), diskSize)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		r.say("NO SMALL DISK (%v): small-disk limits all three streams at what they hold instead", err)
		return nil
	}
	r.disk, r.diskSize = disk, diskSize
	return err
}

// fillDisk leaves no byte free. To heal it, a person empties and enlarges the disk. A
// separate nats-server must then be restarted; the embedded broker restarts itself.
func fillDisk(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	if r.disk == nil {
		return r.fillStreams(ctx)
	}
	foreign := filepath.Join(r.diskDir(), fmt.Sprintf("foreign-%08x", draw.Uint32()))
	f, err := os.Create(foreign)
	if err != nil {
		return nil, err
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if closeErr := f.Close(); !errors.Is(err, syscall.ENOSPC) {
		return nil, errors.Join(err, closeErr)
	}
	return func(context.Context) error {
		r.diskSize += diskGrowth
		if err := errors.Join(os.Remove(foreign), r.disk.Resize(r.diskSize)); err != nil {
			return err
		}
		for _, node := range r.nodes {
			r.end(node, syscall.SIGTERM)
			if err := r.begin(node); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// fillStreams makes every stream refuse messages that would make it larger.
func (r *rig) fillStreams(ctx context.Context) (heal, error) {
	names := []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD"}
	for _, name := range names {
		s, err := r.js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := r.limitBytes(ctx, name, int64(s.CachedInfo().State.Bytes)+1); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		for _, name := range names {
			if err := r.unlimited(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
