package watch

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"orderpost/internal/cli/broker"
	"orderpost/internal/files/folder"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// watcher watches a folder and its subfolders. It looks at them several times a second. Events
// of the file system would tell nothing of a file on NFS, SMB or a mounted bucket, and nowhere
// that a file is complete.
type watcher struct {
	options
	q       *queue.Queue
	dir     string
	door    fleet.Door // what stays the same of it
	environ map[string]string
	trace   func(orderNo, intentID, stream string) string
	when    completeness
	by      broker.Acting
	log     zerolog.Logger

	stored atomic.Int64 // rows of files
	mu     sync.Mutex
	wrong  map[string]string // what is wrong now, by what it is about
}

// describe is what orderpost fleet shows of this process.
func (w *watcher) describe() fleet.Door {
	d := w.door
	d.Done = uint64(w.stored.Load()) //nolint:gosec // a count
	w.mu.Lock()
	defer w.mu.Unlock()
	if abouts := slices.Sorted(maps.Keys(w.wrong)); len(abouts) > 0 {
		d.Problem = abouts[0] + ": " + w.wrong[abouts[0]]
	}
	return d
}

// logger returns one for a goroutine.
func (w *watcher) logger() logger { return logger{w.log, make(map[string]string), w} }

// note keeps what is wrong with something; "" = nothing is.
func (w *watcher) note(about, wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.wrong, about); wrong != "" {
		w.wrong[about] = wrong
	}
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var mu sync.Mutex
	running := make(map[string]bool)
	log := w.logger()
	var units sync.WaitGroup
	defer units.Wait()
	units.Go(func() { fleet.New(w.q).ShowDoor(ctx, w.log, w.describe) })
	w.log.Info().Str("folder", w.dir).Msg("watching")
	for ctx.Err() == nil {
		names, err := w.subfolders()
		wrong := ""
		if err != nil {
			wrong = err.Error() + "; files are taken again when the folder is back"
		}
		log.once(w.dir, wrong)
		mu.Lock()
		for _, name := range names {
			if running[name] {
				continue
			}
			running[name] = true
			u := &unit{watcher: w, name: name, log: w.logger()}
			units.Go(func() {
				u.run(ctx)
				mu.Lock()
				defer mu.Unlock()
				delete(running, name)
			})
		}
		mu.Unlock()
		_ = settle.Sleep(ctx, w.pace.reread)
	}
}

// subfolders returns "" for the folder itself, and the names of the folders in it that people
// made.
func (w *watcher) subfolders() ([]string, error) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	names := []string{""}
	for _, e := range entries {
		if e.IsDir() && e.Name() != folder.Done && e.Name() != folder.Refused && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (w *watcher) path(name string) string { return filepath.Join(w.dir, name) }
