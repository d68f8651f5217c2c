package fileimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/gateway/door"
	"orderpost/internal/order"
)

// formats are the formats of files, by media type.
var formats = map[string]importer.Format{
	"text/csv":             importer.FormatCSV,
	"application/x-ndjson": importer.FormatNDJSON,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": importer.FormatXLSX,
}

// MediaTypes implements door.Files.
func (i *Imports) MediaTypes() []string { return slices.Sorted(maps.Keys(formats)) }

// Take implements door.Files.
func (i *Imports) Take(ctx context.Context, r door.FileRequest, body io.Reader) (door.Import, error) {
	choices, err := read(r)
	if err != nil {
		return door.Import{}, err
	}
	in, err := i.arrive(r, body)
	if err != nil {
		return door.Import{}, err
	}
	by := uploads.Person{Name: r.By.Name, How: string(r.By.Known)}
	u, err := i.store.Keep(ctx, r.Client, by, in)
	in.leave()
	if in.fail != nil {
		err = in.fail
	}
	if err != nil {
		return door.Import{}, refusal(err)
	}
	if err := i.desk.Submit(u.ID, by, choices.Reading, choices.Sending); err != nil {
		if err := i.desk.Remove(u.ID, ""); err != nil {
			i.log.Error().Err(err).Str("import", u.ID).Msg("a file that was refused could not be removed")
		}
		return door.Import{}, refusal(err)
	}
	return i.Look(u.ID)
}

// parameters are those of an import, with the names that enqueue's flags have.
func parameters() (names []string) {
	for _, option := range importer.AllOptions() {
		if !option.Local {
			names = append(names, option.Name)
		}
	}
	slices.Sort(names)
	return names
}

// read reads the parameters of an import.
func read(r door.FileRequest) (importer.Choices, error) {
	c := importer.Choices{Now: time.Now()}
	c.Format = formats[r.Media]
	if charset := strings.ToLower(r.Charset); charset != "" && !r.Parameters.Has("encoding") {
		if err := c.Set("encoding", charset); err != nil {
			return c, wrong(err, "header Content-Type", "give a charset of these, or the parameter encoding")
		}
	}
	// No client's name begins with _, so the id of an order in a file is never that of a
	// submission. The last dot ends the client's name, so no client can name another's import.
	c.BatchPrefix = "_" + r.Client + "."
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		if !slices.Contains(parameters(), name) {
			return c, bad(order.Clip(name, 40), "there is none of this name", "use those of /openapi.yaml: "+strings.Join(parameters(), ", "))
		}
		for _, value := range r.Parameters[name] {
			if err := take(&c, name, value); err != nil {
				return c, err
			}
		}
	}
	if err := errors.Join(c.Check(), c.CheckDeadline()); err != nil {
		return c, wrong(err, "parameters", advice)
	}
	if c.Direct && r.Rate > 0 && (c.Rate == 0 || c.Rate > r.Rate) {
		c.Rate = r.Rate // it does not wait its turn, so it must not flood the queue
	}
	return c, nil
}

// advice is for an option that says no better.
const advice = "give it as /openapi.yaml describes it, or leave it out"

// take takes one value of a parameter. One without a value says nothing, unless it is a switch.
func take(c *importer.Choices, name, value string) error {
	switch {
	case value == "" && !importer.OptionOf(name).IsSwitch():
		return nil
	case name == "batch":
		if c.Batch = c.BatchPrefix + value; strings.Contains(value, ".") || importer.CheckBatch(c.Batch) != nil {
			return bad(name, fmt.Sprintf("%q is not 1 to %d letters, digits, _ and -", order.Clip(value, 110), 100-len(c.BatchPrefix)), "give such a name, or leave it out: then the content names the import")
		}
		return nil
	case name == "rate" && value == "0":
		return bad(name, "it is 0", "give the most orders a second, such as 50")
	}
	if err := c.Set(name, value); err != nil {
		return wrong(err, "parameter "+name, advice)
	}
	return nil
}

// wrong says what is wrong with an option. where and do are for an error that does not say them itself.
func wrong(err error, where, do string) error {
	out := &door.FileError{Kind: door.FileParameter, Where: where, Seen: err.Error(), Do: do}
	if option, ok := errors.AsType[*importer.OptionError](err); ok {
		out.Seen, out.Do = option.Seen, cmp.Or(option.Do, do)
		if where == "parameters" {
			out.Where = "parameter " + option.Name
		}
	}
	return out
}

func bad(parameter, seen, do string) error {
	return &door.FileError{Kind: door.FileParameter, Where: "parameter " + parameter, Seen: seen, Do: do}
}

// kinds are the kinds of uploads' refusals.
var kinds = map[uploads.Kind]door.FileErrorKind{uploads.Unusable: door.FileUnusable, uploads.TooLarge: door.FileTooLarge, uploads.BrokenOff: door.FileBrokenOff, uploads.NoRoom: door.FileNoRoom,
	uploads.Busy: door.FileUnready, uploads.Unready: door.FileUnready, uploads.Changed: door.FileUnready, uploads.Gone: door.FileUnknown}

// todo says what to do about refusals that do not say it themselves.
var todo = map[door.FileErrorKind]string{door.FileUnusable: "correct the file, or the parameters that say how to read it, and send it again",
	door.FileUnready: "GET the import to see how it stands"}

// refusal converts an error of uploads.
func refusal(err error) error {
	if missing, ok := errors.AsType[*importer.MissingField](err); ok {
		do := "name the column that holds it: rename=COLUMN=" + missing.Field
		if missing.Field == order.FieldTimeout {
			do += ", or give every order the same one: set=timeout=30"
		} else {
			do += ", or have numbers made: order-no-template={batch}-{row}"
		}
		return &door.FileError{Kind: door.FileUnusable, Where: "column " + missing.Field, Seen: "there is none among " + order.Clip(strings.Join(missing.Fields, ", "), 400), Do: do, Err: err}
	}
	r, ok := errors.AsType[*uploads.Refusal](err)
	if !ok {
		return err
	}
	out := &door.FileError{Kind: kinds[r.Kind], Where: "body", Seen: r.Seen, Err: err}
	out.Do = cmp.Or(r.Do, todo[out.Kind])
	if row, ok := errors.AsType[*importer.RowError](err); ok {
		out.Where, out.Seen = cell(row.Line, row.Column), row.Plain()
	} else if out.Kind == door.FileUnready {
		out.Where = "import"
	}
	return out
}
