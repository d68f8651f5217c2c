package schema

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"orderpost/internal/order"
	"orderpost/internal/platform/livefile"
)

// setting is the variable that names the file.
const setting = "ORDERPOST_ORDER_SCHEMA"

// Config names the schema's file.
type Config struct {
	File string `env:"ORDER_SCHEMA" desc:"JSON Schema that every order must fulfil before it is stored and sent; read again when it changes"`
}

// Schema is a compiled schema. A nil *Schema takes every order. It is safe for concurrent
// use.
type Schema struct {
	compiled atomic.Pointer[jsonschema.Schema]
	taken    atomic.Int64

	mu   sync.Mutex     // guards file
	file *livefile.File // nil = not read again
	name string         // of the file
	log  zerolog.Logger
	next atomic.Int64 // when the file is looked at again, in Unix nanoseconds
	note atomic.Pointer[string]
}

// lookEvery is how often Check looks whether the file changed.
const lookEvery = time.Second

// Load reads the schema and compiles it. Without a file it returns nil. From then on,
// Check reads the file again when it changes. log hears about that.
func (c Config) Load(log zerolog.Logger) (*Schema, error) {
	if c.File == "" {
		return nil, nil
	}
	s := &Schema{name: c.File, log: log}
	var err error
	s.file, err = livefile.Open(setting, c.File, s.take)
	if err != nil {
		return nil, err
	}
	s.next.Store(time.Now().Add(lookEvery).UnixNano())
	return s, nil
}

// Parse compiles a schema that is not read again. Errors name file.
func Parse(file string, text []byte) (*Schema, error) {
	s := &Schema{name: file}
	return s, s.take(text)
}

// take compiles a content of the file.
func (s *Schema) take(text []byte) error {
	compiled, err := compile(s.name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	s.compiled.Store(compiled)
	s.taken.Add(1)
	return nil
}

// Taken counts the contents of the file that were taken. It looks at the file before, as Check
// does. 0 = there is no schema.
func (s *Schema) Taken() int64 {
	if s == nil {
		return 0
	}
	s.now()
	return s.taken.Load()
}

// Pinned returns the schema as it is now. What is checked in several passes needs one that
// does not change in between.
func (s *Schema) Pinned() *Schema {
	if s == nil {
		return nil
	}
	pinned := &Schema{name: s.name}
	pinned.compiled.Store(s.now())
	return pinned
}

// Note returns why the file could not be read again; "" = it could.
func (s *Schema) Note() string {
	if s == nil {
		return ""
	}
	if note := s.note.Load(); note != nil {
		return *note
	}
	return ""
}

// now returns the schema that was read last. At times it looks at the file before.
func (s *Schema) now() *jsonschema.Schema {
	if now := time.Now().UnixNano(); s.file != nil && now >= s.next.Load() && s.mu.TryLock() {
		s.reload()
		s.next.Store(now + int64(lookEvery))
		s.mu.Unlock()
	}
	return s.compiled.Load()
}

// reload reads the file again if it changed. If that fails, the schema stays, and the
// error is logged once.
func (s *Schema) reload() {
	changed, err := s.file.Reload(s.take)
	if err != nil {
		note := "going on with the old order schema: " + err.Error()
		if last := s.note.Swap(&note); last == nil || *last != note {
			s.log.Error().Err(err).Msg("cannot read the order schema again; going on with the old one")
		}
		return
	}
	if s.note.Swap(nil) != nil && !changed {
		s.log.Info().Msg("the order schema is as it was when it was read last")
	}
	if changed {
		s.log.Info().Str("file", s.name).Msg("order schema read again")
	}
}

// Fields returns the fields of orders that the schema names, as columns of a file name them: those that it requires first.
// Fields of objects are there by their paths, but for the timestamp, which the worker adds. nil = it names none.
func (s *Schema) Fields() []string {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(fieldsOf(s.now(), ""), func(name string) bool { return name == order.FieldTimestamp })
}

// fieldsOf ends, because no schema is compiled that contains itself by its references.
func fieldsOf(s *jsonschema.Schema, prefix string) (out []string) {
	for s != nil && s.Ref != nil && len(s.Properties) == 0 {
		s = s.Ref
	}
	if s == nil {
		return nil
	}
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if below := fieldsOf(s.Properties[name], prefix+name+"."); len(below) > 0 {
			out = append(out, below...)
		} else {
			out = append(out, prefix+name)
		}
	}
	return out
}
