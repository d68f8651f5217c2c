package embedded

import (
	"errors"
	"os"
	"path/filepath"

	"orderpost/internal/platform/durable"
)

// openStore makes everything last that the server will find, and the folders that it will
// write to, so that a power cut on any file system takes nothing that it builds on.
//
// A server that was killed may have written a message and not synced it. The next one
// finds the message, because the page cache outlives a process, and builds on it: it
// removes the message that this one replaced, for good. A power cut would then take both.
// So openStore syncs all files first.
//
// fsync of a file keeps the file's data. Whether it also keeps the file's name depends on
// the file system: ext4, XFS and btrfs do, POSIX does not ask for it. nats-server does
// not sync the folders that it creates for a stream, nor the folder of a stream's blocks
// when it begins a new block. So openStore creates the folders of our streams before the
// server does, tells the file system to write changes of each folder of blocks at once,
// where it can (dirsync), and syncs all folders.
func openStore(dir string, streams []string) error {
	store := filepath.Join(dir, "jetstream", "jetstream")
	for _, name := range streams {
		if err := os.MkdirAll(filepath.Join(store, "$G", "streams", name, "msgs"), 0o700); err != nil {
			return err
		}
	}
	blocks, err := filepath.Glob(filepath.Join(store, "*", "streams", "*", "msgs"))
	if err != nil {
		return err
	}
	for _, folder := range blocks {
		_ = dirsync(folder) // XFS cannot, and needs it not
	}
	return errors.Join(durable.SyncFolder(dir), durable.SyncAll(filepath.Join(dir, "jetstream")))
}

// bareFolders returns the folders that openStore made for streams that nobody has created
// yet, each with a final separator. The server warns that they have no configuration. A
// folder that holds messages is none of them.
func bareFolders(dir string, streams []string) (bare []string) {
	for _, name := range streams {
		folder := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", name)
		_, err := os.Stat(filepath.Join(folder, metaFile))
		blocks, listErr := os.ReadDir(filepath.Join(folder, "msgs"))
		if errors.Is(err, os.ErrNotExist) && listErr == nil && len(blocks) == 0 {
			bare = append(bare, folder+string(filepath.Separator))
		}
	}
	return bare
}
