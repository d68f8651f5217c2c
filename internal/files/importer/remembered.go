package importer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"orderpost/internal/fleet/imports"
)

// columnsOf returns a hash of the names of a header, without the columns that a results or rejects file has added; "" =
// nothing names columns.
func columnsOf(header []string) string {
	own := ownColumns(header)
	sum := sha256.New()
	n := 0
	for _, name := range header {
		if !slices.Contains(own, name) {
			_, _ = sum.Write([]byte(strings.TrimSpace(name) + "\x00"))
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Remembered returns the mapping of the newest of these imports whose file had the columns of h; nil = none had.
func (h *Head) Remembered(all []*imports.Import) (Mapping, *imports.Import) {
	columns := columnsOf(h.t.header)
	var newest *imports.Import
	for _, imp := range all {
		if columns != "" && imp.Columns == columns && (newest == nil || imp.StartedAt.After(newest.StartedAt)) {
			newest = imp
		}
	}
	if newest == nil || len(newest.Mapping) == 0 {
		return Mapping{}, nil
	}
	m, err := MappingOf(newest)
	if err != nil {
		return Mapping{}, nil
	}
	return m, newest
}

// MappingOf returns the mapping of an earlier import for another file. Of the answers to questions it has those about how
// numbers are written: whether spoiled cells are right is asked of each file anew.
func MappingOf(imp *imports.Import) (m Mapping, err error) {
	if len(imp.Mapping) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(imp.Mapping, &m); err != nil {
		return m, fmt.Errorf("the mapping of the import %s: %w", imp.Batch, err)
	}
	for field, codes := range m.Accept {
		if m.Accept[field] = slices.DeleteFunc(codes, func(c Code) bool { return c != CodeComma && c != CodeThousands && c != CodeShown }); len(m.Accept[field]) == 0 {
			delete(m.Accept, field)
		}
	}
	if len(m.Accept) == 0 {
		m.Accept = nil
	}
	return m, nil
}

// Same reports whether two mappings say the same.
func (m Mapping) Same(o Mapping) bool { return bytes.Equal(m.canonical(), o.canonical()) }
