package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"orderpost/internal/files/folder"
	"orderpost/internal/settle"
)

// unit is the folder itself, or one of its subfolders.
type unit struct {
	*watcher
	name string // "" = the folder itself
	log  logger
	f    *folder.Folder
}

// run watches a unit until ctx ends, or the unit is gone.
func (u *unit) run(ctx context.Context) {
	for ctx.Err() == nil {
		dir := u.path(u.name)
		_, err := os.Lstat(filepath.Join(dir, FlagsFile))
		if u.name == "" {
			err = nil
		}
		if err == nil {
			u.f, err = folder.Open(dir, u.step)
		}
		switch {
		case err == nil:
			u.log.once(dir, "")
			err = u.watch(ctx)
			u.f.Close()
			if err != nil && ctx.Err() == nil {
				u.log.once(dir, err.Error())
			}
		case errors.Is(err, folder.ErrInUse):
			u.log.once(dir, "another process watches this folder; this one takes over when that ends")
		case errors.Is(err, fs.ErrNotExist):
			if _, err := os.Lstat(dir); err != nil {
				u.note(dir, "")
				return
			}
			u.log.once(dir, "it has no file "+FlagsFile+", so nothing in it is taken; put one there with the flags of enqueue for these files, one a line, or an empty one")
		default:
			u.log.once(dir, cannot(dir, err).Error())
		}
		_ = settle.Sleep(ctx, u.pace.reread)
	}
}

// watch looks, takes, and works on what was taken, until ctx ends or the folder cannot be read.
func (u *unit) watch(ctx context.Context) error {
	for _, err := range u.f.Unreadable() {
		u.log.Error().Err(err).Msg("a job was left alone")
	}
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	taken := make(chan struct{}, 1)
	work.Go(func() { u.jobs(ctx, taken) })
	work.Go(func() { u.results(ctx, taken) })
	var flags *folderFlags
	var read time.Time
	for ctx.Err() == nil {
		if time.Since(read) >= u.pace.reread {
			err := u.f.Here()
			if err != nil {
				return err
			}
			read = time.Now()
			wrong := ""
			if flags, err = readFlags(u.f, u.when, u.name != ""); err != nil {
				wrong = err.Error() + "; nothing is taken until this is right"
			}
			u.log.once(filepath.Join(u.path(u.name), FlagsFile), wrong)
		}
		if flags != nil {
			if err := u.look(ctx, flags, taken); err != nil {
				return err
			}
		}
		_ = settle.Sleep(ctx, u.pace.look)
	}
	return nil
}

// readFlags reads the flags of a folder. Their error names every mistake.
func readFlags(f *folder.Folder, when completeness, must bool) (*folderFlags, error) {
	text, err := f.ReadFile(FlagsFile)
	if errors.Is(err, fs.ErrNotExist) && !must {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	flags, err := parseFlags(string(text), when, time.Now(), func(name string) ([]byte, error) {
		data, err := f.ReadFile(filepath.ToSlash(name))
		if err != nil {
			err = fmt.Errorf("%w; the mapping is a file in the folder of %s", err, FlagsFile)
		}
		return data, err
	})
	if err == nil { // a file that was taken before keeps its flags, and its orders expire
		err = flags.choices.CheckDeadline()
	}
	if err != nil {
		return nil, err
	}
	return flags, nil
}

// look takes what is complete.
func (u *unit) look(ctx context.Context, flags *folderFlags, taken chan<- struct{}) error {
	found, waits, err := u.f.Look(time.Now(), folder.Rules{Marker: flags.marker, Endings: flags.taken(), Settle: u.pace.settle, Still: max(flags.still, u.pace.settle), Ignore: []string{FlagsFile, flags.mappingFile}})
	if err != nil {
		return err
	}
	for name, why := range waits {
		u.log.once(u.called(name), "it is not taken: "+why)
	}
	for _, one := range found {
		_, err := u.f.Take(ctx, one, map[string]string{keptFlags: flags.text, keptMapping: flags.mapping})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, folder.ErrChanged): // Look waits anew
		case err != nil:
			u.log.once(u.called(one.Name), "it could not be copied, and stays where it is: "+err.Error()+"; this is tried again")
		default:
			u.log.once(u.called(one.Name), "")
			u.log.Info().Str("file", u.called(one.Name)).Msg("taken")
			wake(taken)
		}
	}
	return nil
}

// wake lets the jobs look again.
func wake(jobs chan<- struct{}) {
	select {
	case jobs <- struct{}{}:
	default:
	}
}

// called is what messages and orders call a file.
func (u *unit) called(name string) string { return filepath.ToSlash(filepath.Join(u.name, name)) }
