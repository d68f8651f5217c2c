package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// keepZeros is how many zeros cutTail leaves. A record ends with a checksum of eight bytes,
// which may end with zeros, but is not zeros altogether.
const keepZeros = 7

// cutTails cuts the zeros off the ends of blocks. A file system may keep the new size of
// a file and lose the data of its last write, and shows zeros then.
//
// nats-server 2.15.2 compares the last eight bytes of the last block with those that its
// index names, and trusts the index if they are equal. The index of a stream that had no
// message yet names zeros. So it takes such a stream for empty, whatever is in the block.
// It cuts any other incomplete end off by itself.
func cutTails(store string) error {
	blocks, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range blocks {
		if err := cutTail(path); err != nil {
			errs = append(errs, fmt.Errorf("embedded broker: the end of a block: %w", err))
		}
	}
	return errors.Join(errs...)
}

func cutTail(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	used := info.Size() // up to the last byte that is not zero
	buf := make([]byte, 4096)
	for used > 0 {
		n := min(int64(len(buf)), used)
		if _, err := f.ReadAt(buf[:n], used-n); err != nil {
			return err
		}
		last := n
		for last > 0 && buf[last-1] == 0 {
			last--
		}
		used -= n - last
		if last > 0 {
			break
		}
	}
	if info.Size()-used <= keepZeros {
		return nil
	}
	if used > 0 {
		used += keepZeros
	}
	return f.Truncate(used)
}
