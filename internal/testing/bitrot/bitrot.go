// Package bitrot damages the files of a NATS server as a disk does, for tests.
package bitrot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Holds returns how many messages of a stream a server has in its own store. One that was
// acknowledged may still be on its way to a server that does not lead the stream: who damages
// its files waits for all of them, or it gets from the others what the damage took.
func Holds(node *server.Server, stream string) (uint64, error) {
	js, err := node.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return 0, err
	}
	for _, account := range js.AccountDetails {
		for _, detail := range account.Streams {
			if detail.Name == stream {
				return detail.State.Msgs, nil
			}
		}
	}
	return 0, nil
}

// Flip changes one bit at a place.
func Flip(block []byte, at int) []byte { block[at] ^= 1; return block }

// Cut ends the file at a place.
func Cut(block []byte, at int) []byte { return block[:at] }

// Damage changes the first file of a stream that holds text, at its place, in the store of a
// server that is stopped, and removes the stream's index, as a kill leaves it. dir is the
// store's folder or one above it.
func Damage(dir, stream, text string, change func(block []byte, at int) []byte) error {
	paths, err := blocks(dir, stream)
	for _, path := range paths {
		block, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := bytes.Index(block, []byte(text)); at >= 0 {
			return damage(path, change(block, at))
		}
	}
	return cmp.Or(err, fmt.Errorf("no file of stream %s below %s holds %s", stream, dir, text))
}

// DamageAny is Damage in the first half of any file, and says where.
func DamageAny(dir, stream string, change func(block []byte, at int) []byte, draw *rand.Rand) (where string, err error) {
	paths, err := blocks(dir, stream)
	if err != nil || len(paths) == 0 {
		return "", cmp.Or(err, fmt.Errorf("stream %s below %s has no file", stream, dir))
	}
	i := draw.IntN(len(paths))
	block, err := os.ReadFile(paths[i])
	if err != nil {
		return "", err
	}
	at, size := draw.IntN(1+len(block)/2), len(block)
	if size == 0 {
		return "", fmt.Errorf("%s is empty", paths[i])
	}
	return fmt.Sprintf("%s (file %d of %d, %d bytes) at %d", filepath.Base(paths[i]), i+1, len(paths), size, at), damage(paths[i], change(block, at))
}

// blocks returns the files of a stream's messages, the oldest first.
func blocks(dir, stream string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" && filepath.Base(filepath.Dir(filepath.Dir(path))) == stream {
			paths = append(paths, path)
		}
		return err
	})
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return paths, err
}

func damage(path string, block []byte) error {
	return errors.Join(os.WriteFile(path, block, 0o600), os.RemoveAll(filepath.Join(filepath.Dir(path), "index.db")))
}
