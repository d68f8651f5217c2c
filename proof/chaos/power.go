package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// powerCut ends the workers and the embedded broker at the same moment, as a power cut
// of their machine does, and damages the last write. The API and the producers are on
// other machines and go on.
func powerCut(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
	r.stores.Lock()
	defer r.stores.Unlock()
	if canFreeze {
		for _, p := range r.processes() { // no process may react while they are killed one by one
			p.freeze()
		}
	}
	for _, p := range r.processes() {
		p.stop(syscall.SIGKILL, 0)
	}
	return func(context.Context) error {
		for _, p := range r.processes() {
			if err := r.begin(p); err != nil {
				return err
			}
		}
		return nil
	}, tear(filepath.Join(r.dataDir(), "jetstream", "jetstream"), draw)
}

// tear adds to a store what a power cut may leave of an unconfirmed write. It keeps
// everything that was fsynced. The broker appends records to the last block of a stream
// and fsyncs it before it confirms. It writes other files under a temporary name,
// fsyncs, and renames them.
func tear(store string, draw *rand.Rand) error {
	streams, err := filepath.Glob(filepath.Join(store, "*", "streams", "*", "msgs"))
	if err != nil {
		return err
	}
	if len(streams) == 0 {
		return fmt.Errorf("%s: no streams to tear", store)
	}
	var errs []error
	for _, dir := range streams {
		errs = append(errs, tearBlock(dir, draw), tearIndex(dir, draw))
	}
	return errors.Join(errs...)
}

// tearBlock appends an incomplete record to the last block: nothing, zeros (the length
// was journalled, the data was not), noise, or part of a real record.
func tearBlock(dir string, draw *rand.Rand) error {
	path, err := lastBlock(dir)
	if err != nil || path == "" {
		return err
	}
	tail := make([]byte, 1+draw.IntN(4096))
	switch draw.IntN(4) {
	case 0:
		return nil
	case 1: // zeros
	case 2:
		for i := range tail {
			tail[i] = byte(draw.Uint32())
		}
	case 3:
		block, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// A record begins with its length, as the block's first does.
		tail = block[:min(len(block), 1+draw.IntN(60))]
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(tail)
	return errors.Join(err, f.Close())
}

// lastBlock returns the block with the highest number; "" = none.
func lastBlock(dir string) (last string, err error) {
	blocks, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	highest := -1
	for _, path := range blocks {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".blk"))
		if err == nil && n > highest {
			highest, last = n, path
		}
	}
	return last, err
}

// tearIndex leaves a half-written new index beside the old one.
func tearIndex(dir string, draw *rand.Rand) error {
	if draw.IntN(2) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "index.db.tmp"), make([]byte, draw.IntN(200)), 0o600)
}
