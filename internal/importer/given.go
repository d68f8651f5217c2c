package importer

import (
	"errors"
	"fmt"
	"strings"
)

// Given is a mapping as flags and parameters have it.
type Given struct {
	// Types are NAME=TYPE, Renames COLUMN=NAME, Constants NAME=VALUE or NAME:TYPE=VALUE,
	// Accepted NAME=CODE.
	Types, Renames, Constants, Accepted []string
	// Empty and Template are Mapping.Empty and Mapping.OrderNoTemplate.
	Empty, Template string
}

// Mapping reads what was given. Its error names every mistake; called returns what the
// user calls "type", "rename", "set" or "accept".
func (g Given) Mapping(called func(option string) string) (Mapping, error) {
	m := Mapping{Empty: g.Empty, OrderNoTemplate: g.Template}
	var errs []error
	pairs := func(option, form string, list []string, take func(name, value string)) {
		for _, text := range list {
			name, value, found := strings.Cut(text, "=")
			if !found || name == "" {
				errs = append(errs, fmt.Errorf("%s: %q is not %s", called(option), clip(text), form))
				continue
			}
			take(name, value)
		}
	}
	pairs("type", "NAME=VALUE", g.Types, func(name, value string) { put(&m.Types, name, Type(value)) })
	pairs("accept", "NAME=CODE", g.Accepted, func(name, value string) { put(&m.Accept, name, append(m.Accept[name], Code(value))) })
	pairs("rename", "NAME=VALUE", g.Renames, func(name, value string) { put(&m.Rename, name, value) })
	pairs("set", "NAME=VALUE", g.Constants, func(name, value string) { put(&m.Set, name, value) })
	return m, errors.Join(errs...)
}

func put[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[name] = value
}
