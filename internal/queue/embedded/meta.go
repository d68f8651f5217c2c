package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// The files in which nats-server keeps the configuration of a stream or consumer, and
// the checksum of that file.
const (
	metaFile = "meta.inf"
	sumFile  = "meta.sum"
)

// mendMeta writes the checksums that a crash kept nats-server from writing. The server
// replaces a stream's configuration and then its checksum. If it is killed between the
// two, its next start finds that they differ and leaves the stream out, with every
// message in it. The configuration itself is whole: the server syncs it under another
// name before it renames it.
//
// A damaged disk also makes a configuration and its checksum differ. So mendMeta trusts a
// configuration only if it is, byte for byte, what this version of the server writes for
// what it reads from it. It leaves any other alone, so that the server reports it. A
// changed value passes that test: package queue compares the values with those that it
// wants, and the time of creation with the one that the fleet remembers.
//
// mendMeta returns the names of the streams and consumers that it mended.
func mendMeta(store string) (mended []string, err error) {
	streams, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*"))
	if err != nil {
		return nil, err
	}
	var errs []error
	mend := func(dir, key string, whole func(meta []byte, name string) bool) {
		did, err := mendSum(dir, key, whole)
		if err != nil {
			errs = append(errs, fmt.Errorf("embedded broker: the configuration of %s: %w", key, err))
		} else if did {
			mended = append(mended, key)
		}
	}
	for _, dir := range streams {
		stream := filepath.Base(dir)
		mend(dir, stream, wholeStream)
		consumers, err := filepath.Glob(filepath.Join(dir, "obs", "*"))
		errs = append(errs, err)
		for _, dir := range consumers {
			mend(dir, stream+"/"+filepath.Base(dir), wholeConsumer)
		}
	}
	return mended, errors.Join(errs...)
}

// mendSum writes the checksum of the configuration in a folder unless it is right. The
// key is what nats-server derives the checksum's key from. whole says whether the
// configuration can be trusted.
func mendSum(dir, key string, whole func(meta []byte, name string) bool) (bool, error) {
	meta, err := os.ReadFile(filepath.Join(dir, metaFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // nothing was confirmed to anybody
	}
	if err != nil {
		return false, err
	}
	hashKey := sha256.Sum256([]byte(key))
	hash, err := highwayhash.New64(hashKey[:])
	if err != nil {
		return false, err
	}
	_, _ = hash.Write(meta) // a hash never fails
	sum := hex.EncodeToString(hash.Sum(nil))
	have, err := os.ReadFile(filepath.Join(dir, sumFile))
	if err == nil && string(have) == sum {
		return false, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if !whole(meta, filepath.Base(dir)) {
		return false, nil
	}
	return true, replaceFile(filepath.Join(dir, sumFile), []byte(sum))
}

// wholeStream reports whether meta is the configuration of the stream with this name, as
// the server writes it. The time of its creation may lie in the future: the clock may have
// been set back since.
func wholeStream(meta []byte, name string) bool {
	var c server.FileStreamInfo
	return readsBack(meta, &c) && c.Name == name && !c.Created.IsZero()
}

// wholeConsumer is wholeStream for a consumer.
func wholeConsumer(meta []byte, name string) bool {
	var c server.FileConsumerInfo
	return readsBack(meta, &c) && c.Name == name && !c.Created.IsZero()
}

// readsBack reports whether data is what encoding what was read from it yields.
func readsBack(data []byte, into any) bool {
	if json.Unmarshal(data, into) != nil {
		return false
	}
	again, err := json.Marshal(into)
	return err == nil && bytes.Equal(again, data)
}

// removeProbes removes the files by which nats-server tries whether it may write to its
// store. If it is killed before it removes one, its health check later takes the file for
// an account that it cannot find, and Fault would have the server restarted again and
// again.
func removeProbes(store string) error {
	probes, err := filepath.Glob(filepath.Join(store, "jetstream", "_test_*"))
	errs := []error{err}
	for _, path := range probes {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}
