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

	"orderpost/internal/queue/smalldisk"
)

// diskSize is how large the broker's small disk is at first, and what is added
// each time that it has been full.
const (
	diskSize   = 96 << 20
	diskGrowth = 32 << 20
)

// storeDir is where a broker's process has its files.
func (r *rig) storeDir(node string) string { return filepath.Join(r.dir, "store-"+node) }

// diskDir is where the small disk is mounted.
func (r *rig) diskDir() string {
	if r.o.broker == embeddedBroker {
		return r.dataDir()
	}
	return r.storeDir("node-1")
}

// mountDisk gives the broker a small disk where the run fills it. Who may not
// mount one is told, and gets full streams instead.
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

// fillDisk leaves no byte free. A person then empties and enlarges the disk; a
// nats-server of its own has to be started anew after that, the embedded one
// sees to that itself.
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

// fillStreams makes every stream refuse what would make it larger.
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
