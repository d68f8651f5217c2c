package importer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/fleet/imports"
)

// Reading says how a file is read, and what its import is called. The zero value reads a file
// as enqueue does without flags.
type Reading struct {
	Mapping   Mapping `json:"mapping,omitzero"`
	Format    Format  `json:"format,omitempty"`    // empty = by the content
	Encoding  string  `json:"encoding,omitempty"`  // empty = by the content
	Delimiter string  `json:"delimiter,omitempty"` // one character, or tab; empty = detected
	Sheet     string  `json:"sheet,omitempty"`     // of a workbook; empty = the only one with content
	// HeaderRow is the line, or the row of a sheet, that names the columns; 0 = the first
	// with content. What is above it is left out.
	HeaderRow int `json:"header_row,omitempty"`
	// SkipRows are rows that are left out, by the numbers that messages give them, as in
	// 27,30-32.
	SkipRows string `json:"skip_rows,omitempty"`
	// Edits are the cells that a person corrected, at most [MaxEdits].
	Edits []Edit `json:"edits,omitempty"`
	// Batch names the import; empty = BatchPrefix, and the beginning of the fingerprint.
	Batch       string `json:"batch,omitempty"`
	BatchPrefix string `json:"batch_prefix,omitempty"`
	// AllowPast takes times that are over: such orders are sent at once.
	AllowPast bool `json:"allow_past,omitempty"`
}

// PastAt returns Options.Past for an import that is judged by a moment.
func (r *Reading) PastAt(now time.Time) time.Time {
	if r.AllowPast {
		return time.Time{}
	}
	return now
}

// comma returns the delimiter that was chosen; 0 = none was.
func (r *Reading) comma() rune {
	comma, _ := parseDelimiter(r.Delimiter) // none is no name of one, either
	return comma
}

// rowSpan is a run of rows.
type rowSpan struct{ from, to int }

// parseSpans reads rows such as 27,30-32.
func parseSpans(text string) (all []rowSpan, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		one := rowSpan{}
		var wrong error
		one.from, err = strconv.Atoi(from)
		one.to, wrong = strconv.Atoi(to)
		if err != nil || wrong != nil || one.from < 1 || one.to < one.from {
			return nil, fmt.Errorf("%q is no list of rows such as 27,30-32", clip(text))
		}
		all = append(all, one)
	}
	return all, nil
}

// skips returns the rows that are left out.
func (r *Reading) skips() []rowSpan {
	all, _ := parseSpans(r.SkipRows) // Set has read it; none are no list, either
	return all
}

// identity returns the options that say how to read the file. They are part of the
// fingerprint: the same bytes read in another way are other orders.
func (r *Reading) identity() []byte {
	said := struct {
		Format    Format
		Encoding  string
		Delimiter rune
		Sheet     string `json:",omitempty"`
		HeaderRow int    `json:",omitempty"`
		SkipRows  string `json:",omitempty"`
		Edits     []Edit `json:",omitempty"`
	}{r.Format, r.Encoding, r.comma(), r.Sheet, r.HeaderRow, r.SkipRows, r.Edits}
	if said.Format == FormatAuto {
		said.Format = ""
	}
	if said.Encoding == EncodingAuto {
		said.Encoding = ""
	}
	mapping := r.Mapping.canonical()
	if said.Format == "" && said.Encoding == "" && said.Delimiter == 0 && said.Sheet == "" && said.HeaderRow == 0 && said.SkipRows == "" && len(said.Edits) == 0 {
		return mapping
	}
	data, _ := json.Marshal(said) // nothing in it can fail
	return append(data, mapping...)
}

// note puts into the record of an import how its file is read, but for what is found in it.
func (r *Reading) note(imp *imports.Import) {
	imp.Mapping, imp.HeaderRow, imp.SkipRows = r.Mapping.canonical(), r.HeaderRow, r.SkipRows
	if len(r.Edits) > 0 {
		imp.Edits, _ = json.Marshal(r.Edits) // nothing in it can fail
	}
}

// recall reads from the record of an import how its file was read.
func (r *Reading) recall(imp *imports.Import) error {
	*r = Reading{Format: Format(imp.Format), Encoding: imp.Encoding, Delimiter: imp.Delimiter, Sheet: imp.Sheet, HeaderRow: imp.HeaderRow, SkipRows: imp.SkipRows, Batch: imp.Batch}
	for text, into := range map[*json.RawMessage]any{&imp.Mapping: &r.Mapping, &imp.Edits: &r.Edits} {
		if len(*text) == 0 {
			continue
		}
		if err := json.Unmarshal(*text, into); err != nil {
			return err
		}
	}
	return nil
}

// Flags returns the flags of enqueue that say how the file is read, each behind a space, without those of a mapping file.
func (r *Reading) Flags() string {
	var b strings.Builder
	for _, flag := range []struct{ name, value string }{
		{"format", string(r.Format)}, {"encoding", r.Encoding}, {"delimiter", r.Delimiter}, {"sheet", r.Sheet}, {"batch", r.Batch},
	} {
		if flag.value != "" && flag.value != "auto" {
			fmt.Fprintf(&b, " --%s '%s'", flag.name, strings.ReplaceAll(flag.value, "'", `'\''`))
		}
	}
	if r.HeaderRow > 0 {
		fmt.Fprintf(&b, " --header-row %d", r.HeaderRow)
	}
	if r.SkipRows != "" {
		b.WriteString(" --skip-rows " + r.SkipRows)
	}
	if r.AllowPast {
		b.WriteString(" --allow-past")
	}
	return b.String()
}
