package livefile

import (
	"fmt"
	"os"
	"sync"

	"github.com/rs/zerolog"
)

// Live is what a file of settings says. It is safe for concurrent use.
type Live[T any] struct {
	mu     sync.Mutex
	file   *File
	parse  func(text []byte) (T, error)
	value  T
	teller teller
}

// Options name a file, and say how it is read.
type Options struct {
	Setting, Path string
	// Guard refuses a file that anybody on this machine can change or replace.
	Guard bool
	// Log hears once of a file that changed and cannot be used, and once it can be used again.
	Log zerolog.Logger
}

// OpenLive reads a file. An error begins with the setting's name. From then on Get reads it
// again when it changes. If it cannot be used then, what was read before stays in force.
func OpenLive[T any](o Options, parse func(text []byte) (T, error)) (*Live[T], error) {
	l := &Live[T]{file: &File{setting: o.Setting, path: o.Path, guard: o.Guard}, parse: parse, teller: teller{log: o.Log.With().Str("setting", o.Setting).Logger()}}
	if o.Guard {
		info, err := os.Stat(o.Path)
		if err != nil {
			return nil, l.file.named(err)
		}
		if err := l.file.guarded(info); err != nil {
			return nil, err
		}
	}
	_, err := l.file.read(l.take)
	return l, err
}

// Get returns what the file says, as soon as it is a second old: an editor may be writing it still. It costs a few
// calls of stat.
func (l *Live[T]) Get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.Reload(l.take)
	if err != nil {
		err = fmt.Errorf("%w; what was read before stays in force", err)
	}
	l.teller.say(err)
	return l.value
}

func (l *Live[T]) take(text []byte) error {
	value, err := l.parse(text)
	if err != nil {
		return l.file.named(fmt.Errorf("%s: %w", l.file.path, err))
	}
	l.value = value
	return nil
}
