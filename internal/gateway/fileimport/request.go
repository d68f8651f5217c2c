package fileimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
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
	set, o, err := read(r)
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
	if err := i.desk.Submit(u.ID, by, set, o); err != nil {
		if err := i.desk.Remove(u.ID, ""); err != nil {
			i.log.Error().Err(err).Str("import", u.ID).Msg("a file that was refused could not be removed")
		}
		return door.Import{}, refusal(err)
	}
	return i.Look(u.ID)
}

// parameters are those of an import, with the names that enqueue's flags have.
var parameters = []string{"accept", "allow-past", "batch", "deadline", "delimiter", "direct", "empty", "encoding", "lane", "not-before", "order-no-template", "rate", "rename",
	"retry-failed", "set", "sheet", "type"}

// read reads the parameters of an import.
func read(r door.FileRequest) (set uploads.Settings, o uploads.ImportOptions, err error) {
	q := r.Parameters
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(parameters, name) {
			return set, o, bad(order.Clip(name, 40), "there is none of this name", "use those of /openapi.yaml: "+strings.Join(parameters, ", "))
		}
	}
	set.Format, set.Encoding, set.Sheet = formats[r.Media], strings.ToLower(r.Charset), q.Get("sheet")
	set.Mapping, err = importer.Given{Types: q["type"], Renames: q["rename"], Constants: q["set"], Accepted: q["accept"], Empty: q.Get("empty"), Template: q.Get("order-no-template")}.
		Mapping(func(option string) string { return option })
	if err = errors.Join(err, set.Mapping.Validate()); err != nil {
		return set, o, &door.FileError{Kind: door.FileParameter, Where: "parameters", Seen: err.Error(), Do: "give them as /openapi.yaml describes them"}
	}
	where, do := "header Content-Type", "give a charset of these, or the parameter encoding"
	if text := q.Get("encoding"); text != "" {
		set.Encoding, where, do = text, "parameter encoding", "give one of these, or leave it out"
	}
	if set.Encoding == importer.EncodingAuto {
		set.Encoding = ""
	}
	if set.Encoding != "" && !slices.Contains(importer.Encodings(), set.Encoding) {
		return set, o, &door.FileError{Kind: door.FileParameter, Where: where, Seen: fmt.Sprintf("the encoding %q is none of %s", order.Clip(set.Encoding, 40), strings.Join(importer.Encodings(), ", ")), Do: do}
	}
	if set.Delimiter = q.Get("delimiter"); set.Delimiter != "" {
		if _, err := importer.ParseDelimiter(set.Delimiter); err != nil {
			return set, o, bad("delimiter", err.Error(), "give one of these, or leave it out")
		}
	}
	// No client's name begins with _, so the id of an order in a file is never that of a
	// submission. The last dot ends the client's name, so no client can name another's import.
	set.BatchPrefix = "_" + r.Client + "."
	if name := q.Get("batch"); name != "" {
		set.Batch = set.BatchPrefix + name
		if strings.Contains(name, ".") || importer.CheckBatch(set.Batch) != nil {
			return set, o, bad("batch", fmt.Sprintf("%q is not 1 to %d letters, digits, _ and -", order.Clip(name, 110), 100-len(set.BatchPrefix)), "give such a name, or leave it out: then the content names the import")
		}
	}
	o, err = readTimes(r, &set)
	return set, o, err
}

// readTimes reads when and how fast the orders of an import may go.
func readTimes(r door.FileRequest, set *uploads.Settings) (o uploads.ImportOptions, err error) {
	q := r.Parameters
	for name, on := range map[string]*bool{"allow-past": &set.AllowPast, "retry-failed": &o.RetryFailed, "direct": &o.Direct} {
		if *on = q.Has(name); q.Get(name) != "" {
			if *on, err = strconv.ParseBool(q.Get(name)); err != nil {
				return o, bad(name, fmt.Sprintf("%.40q", q.Get(name)), "give true or false")
			}
		}
	}
	if o.Lane = q.Get("lane"); o.Lane != "" {
		if err := order.CheckLane(o.Lane); err != nil {
			return o, bad("lane", err.Error(), "give the name of a lane, or leave it out")
		}
	}
	if text := q.Get("deadline"); text != "" {
		if o.Deadline, err = time.Parse(time.RFC3339, text); err != nil {
			return o, bad("deadline", fmt.Sprintf("%.60q is not an RFC 3339 time such as 2026-11-23T18:00:00Z", text), "give such a time, or leave it out")
		}
	}
	if text := q.Get("not-before"); text != "" {
		if o.NotBefore, err = order.ParseNotBefore(text, time.Now()); err != nil {
			return o, bad("not-before", err.Error(), "give a time such as 2026-11-23T18:00:00Z within a year, or leave it out")
		}
		if order.LongPast(o.NotBefore, time.Now()) && !set.AllowPast {
			return o, bad("not-before", "it is over", "leave it out if the orders are to be sent at once, or say allow-past")
		}
	}
	if missed := order.MissedDeadline(o.Deadline, o.NotBefore, time.Now()); missed != "" {
		return o, bad("deadline", missed, "give a later time, or leave it out")
	}
	if text := q.Get("rate"); text != "" {
		if o.Rate, err = strconv.ParseFloat(text, 64); err != nil || o.Rate == 0 || order.CheckRate(o.Rate) != nil {
			return o, bad("rate", fmt.Sprintf("%.40q", text), "give the most orders a second, such as 50")
		}
	}
	if o.Direct && r.Rate > 0 && (o.Rate == 0 || o.Rate > r.Rate) {
		o.Rate = r.Rate // it does not wait its turn, so it must not flood the queue
	}
	return o, nil
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
