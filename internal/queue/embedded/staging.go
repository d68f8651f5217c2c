package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A server without replicas stages an atomic batch in a store of files of its own, in the
// folder "batches" of the stream, and syncs five times for that, before it copies the
// batch to the stream and syncs that once (nats-server 2.15.2, newBatchStore). Nobody was
// told yet that the batch is stored, so a power cut may take it. Only a server that was
// killed while it copied reads what is staged, at its next start, to finish the copy. If it
// is gone by then, the messages that were copied stay, as single writes would that nobody
// confirmed.
//
// So stage puts a link to a folder in memory in the place of "batches", and one sync of six
// is left.

// stagingFree is how much room there must be in memory. A batch has a few megabytes
// (maxWriteBytes in package queue), and each stream has one or two at a time.
const stagingFree = 32 << 20

// stagingTries is how often stage tries to replace a folder that is in use by a batch.
const stagingTries = 100

// stage makes the running server stage the batches of our streams in memory, where the
// machine has some. The server removes the links of the streams that it recovers.
func (s *Server) stage() {
	s.unstage() // what a server left that was killed or is revived
	folder := stagingFolder(s.cfg.Dir)
	if folder == "" {
		return
	}
	if d, err := statDisk(stagingRoot); err != nil || d.Free < stagingFree || s.memoryFailed {
		_ = os.RemoveAll(folder)
		return
	}
	s.staging = folder
	for _, name := range s.cfg.Streams {
		target := filepath.Join(folder, name)
		_ = os.RemoveAll(target)
		if os.Mkdir(target, 0o700) == nil {
			replaceByLink(s.batches(name), target)
		}
	}
}

// batches is the folder in which the server stages the batches of a stream.
func (s *Server) batches(stream string) string {
	return filepath.Join(s.cfg.Dir, "jetstream", "jetstream", "$G", "streams", stream, "batches")
}

// replaceByLink puts a link in the place of a folder. A client that came at once may have a
// batch in it. If the folder is never empty for a moment, batches stay where they are.
func replaceByLink(link, target string) {
	for range stagingTries {
		if err := os.Symlink(target, link); !errors.Is(err, fs.ErrExist) {
			return
		}
		if os.Remove(link) != nil { // it is in use
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// keepStaged makes what is staged in memory again if somebody removed it, such as systemd when
// the user's last session ends (RemoveIPC). The links would lead nowhere, and the server would
// refuse every batch.
func (s *Server) keepStaged() {
	if s.staging == "" {
		return
	}
	if err := os.Mkdir(s.staging, 0o700); err != nil && !ownFolder(s.staging) {
		s.unstage() // another user was faster
		return
	}
	for _, name := range s.cfg.Streams {
		_ = os.Mkdir(filepath.Join(s.staging, name), 0o700) // most often it is there
	}
}

// failedInMemory reports whether the server gave up a batch because it could not write what
// it staged in memory. It keeps such a batch, and takes no more of them after fifty.
func (s *Server) failedInMemory() bool {
	text := s.log.critical()
	for _, name := range s.cfg.Streams {
		if s.staging != "" && strings.Contains(text, s.batches(name)+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// unstage removes what stage made.
func (s *Server) unstage() {
	for _, name := range s.cfg.Streams {
		if link := s.batches(name); isLink(link) {
			_ = os.Remove(link)
		}
	}
	if s.staging != "" {
		_ = os.RemoveAll(s.staging)
	}
	s.staging = ""
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
