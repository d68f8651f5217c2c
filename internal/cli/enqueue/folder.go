package enqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // the container image has no zones

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/duration"
	"orderpost/internal/platform/textfile"
	"orderpost/internal/queue"
)

// FolderFlags are the flags with which the files of a watched folder are imported: those of
// enqueue that can mean every file, and two that say when a file is complete.
type FolderFlags struct {
	o importOptions
	// Text and Mapping are what the flags and their mapping file said.
	Text, Mapping string
	// MappingFile is the name of the mapping file; "" = there is none.
	MappingFile string
	Completeness
	missed error
}

// CheckDeadline returns an error if a file that is taken now could not meet the deadline of the
// flags. One that was taken before keeps its flags, and its orders expire.
func (x *FolderFlags) CheckDeadline() error { return x.missed }

// Completeness says when a file is complete.
type Completeness struct {
	Marker  string
	Endings []string
	Still   time.Duration
}

// Register adds the flags to a command.
func (c *Completeness) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.Marker, "marker", c.Marker, "a file NAME is complete when a file NAME with this behind it is there, such as .ok (default: no markers)")
	cmd.Flags().StringSliceVar(&c.Endings, "endings", c.Endings, "endings of the files that are taken, also with .gz or .zst behind them; * takes any name. Files with markers need none")
	cmd.Flags().Var((*duration.Value)(&c.Still), "still", "how long a file must not change, where nobody can tell whether its writer has closed it")
}

// KnownEndings are the endings of files that an import reads, and of those of which it can say what
// to do with them instead.
var KnownEndings = []string{"csv", "tsv", "txt", "ndjson", "jsonl", "json", "xlsx", "xls", "xlsm", "xlsb", "ods"}

// Taken returns the endings of the files that are taken; nil = any.
func (c *Completeness) Taken() (endings []string) {
	for _, end := range c.Endings {
		if end == "*" {
			return nil
		}
		endings = append(endings, strings.ToLower(strings.TrimPrefix(end, ".")))
	}
	return endings
}

// Validate returns an error that names every mistake.
func (c *Completeness) Validate() error {
	var errs []error
	if strings.ContainsAny(c.Marker, "/\\") {
		errs = append(errs, fmt.Errorf("--marker: %q stands behind the name of a file, so it has no folder", c.Marker))
	}
	for _, end := range c.Endings {
		if end = strings.TrimPrefix(end, "."); end == "" || strings.TrimSpace(end) != end || strings.ContainsAny(end, "/\\") {
			errs = append(errs, fmt.Errorf("--endings: %q is no ending of a name, such as csv", end))
		}
	}
	return errors.Join(errs...)
}

// notInFolders are flags of enqueue that the file of a folder cannot have, and why.
var notInFolders = map[string]string{
	"batch": "it names one import, and each file of a folder is one; its name comes from the content", "source": "each file has its own name",
	"dry-run": "a folder is watched to import its files", "wait": "the results come by themselves, into done/", "results": "they come into done/, beside the file",
	"json": "the log tells (ORDERPOST_LOG_FORMAT=json)", "quiet": "the log tells (ORDERPOST_LOG_LEVEL=warn)", "max-stdin": "nothing is read from standard input",
	"by": "give it to orderpost watch", "note": "give it to orderpost watch", "broker-wait": "a folder waits for the broker in any case", "help": "see orderpost enqueue --help",
}

// ParseFolderFlags reads flags as they stand in a file: one a line, with its value behind a
// space or =, without quotes. Lines that begin with # are comments. when is what the file need
// not say; read reads a mapping file. Error: every mistake, with its line.
func ParseFolderFlags(text string, when Completeness, read func(name string) ([]byte, error)) (*FolderFlags, error) {
	x := &FolderFlags{Text: text, Completeness: when}
	cmd := &cobra.Command{Use: "enqueue"}
	x.o.register(cmd, nil)
	x.Register(cmd)
	x.o.daily = true
	var errs []error
	for n, line := range strings.Split(string(textfile.Decode([]byte(text))), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := setFlag(cmd, line); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
	if len(errs) == 0 && x.o.mappingFile != "" {
		x.MappingFile, x.o.mappingFile = x.o.mappingFile, ""
		data, err := read(x.MappingFile)
		if err == nil {
			x.Mapping = string(data)
			x.o.base, err = importer.ReadMapping(x.MappingFile, strings.NewReader(x.Mapping))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--mapping: %w", err))
		}
	}
	if len(errs) == 0 {
		options, err := x.o.reading()
		x.missed = checkDeadline(options)
		errs = append(errs, err, x.Validate())
	}
	return x, errors.Join(errs...)
}

// nextTime returns the first moment after now at which the clocks of a place show a time of day,
// such as 08:00 Europe/Berlin. daily is false if text is none. A time that the clocks skip in spring comes
// an hour later.
func nextTime(text string, now time.Time) (at time.Time, daily bool, err error) {
	clock, zone, _ := strings.Cut(text, " ")
	day, err := time.Parse("15:04", clock)
	if err != nil {
		return at, false, nil
	}
	if zone = strings.TrimSpace(zone); zone == "" {
		return at, true, fmt.Errorf("%q does not say where; write the zone behind it, such as %s Europe/Berlin or %s UTC", clip(text), clock, clock)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return at, true, fmt.Errorf("%q: %w; write a zone such as Europe/Berlin or UTC", clip(text), err)
	}
	today := now.In(place)
	for days := 0; !at.After(now); days++ {
		at = time.Date(today.Year(), today.Month(), today.Day()+days, day.Hour(), day.Minute(), 0, 0, place)
	}
	return at.UTC(), true, nil
}

func setFlag(cmd *cobra.Command, line string) error {
	flag, isFlag := strings.CutPrefix(line, "--")
	if !isFlag {
		return fmt.Errorf("%q is no flag: a line is one flag of enqueue, such as --lane night", clip(line))
	}
	name, value := flag, ""
	if at := strings.IndexAny(flag, " \t="); at >= 0 {
		name, value = flag[:at], strings.TrimSpace(flag[at+1:])
	}
	f := cmd.Flags().Lookup(name)
	why, not := notInFolders[name]
	switch {
	case not:
		return fmt.Errorf("--%s has no place in the file of a folder: %s", name, why)
	case f == nil:
		return fmt.Errorf("there is no flag --%s (orderpost enqueue --help lists them)", clip(name))
	case f.NoOptDefVal != "" && value == "":
		value = f.NoOptDefVal
	case value == "":
		return fmt.Errorf("--%s needs a value", name)
	}
	if err := cmd.Flags().Set(name, value); err != nil {
		return err
	}
	return nil
}

// maxQuoted is the most of a line that a message quotes.
const maxQuoted = 60

func clip(text string) string {
	if runes := []rune(text); len(runes) > maxQuoted {
		return string(runes[:maxQuoted]) + "…"
	}
	return text
}

// Taken is a file that a watched folder took. It is imported by the code of enqueue.
type Taken struct {
	// Content is a copy that nobody changes. Name is what messages call the file, Path
	// where it will be when it is imported.
	Content    *os.File
	Name, Path string
	// At is the moment by which its times are judged, in every run of its import.
	At      time.Time
	Environ map[string]string
	// Trace is that of importer.Options.
	Trace func(orderNo, intentID, stream string) string
	By    broker.Acting
	// Beside takes a file about the bad rows, by the ending of its name.
	Beside func(ending string, fill func(io.Writer) error) error
	// Rows is called after each chunk of rows that was stored. It may be nil.
	Rows func(done int)
}

// Refused is the error of a file that cannot be imported, however often one tries.
type Refused struct {
	// Why has the words of enqueue.
	Why string
	err error
}

func (r *Refused) Error() string { return r.Why }

// Unwrap returns the error of enqueue.
func (r *Refused) Unwrap() error { return r.err }

// Import checks and stores a file as enqueue does. It returns the name of the import and what
// enqueue says about it. Error: *Refused. After any other error the same import goes on
// behind the last confirmed row.
func (x *FolderFlags) Import(ctx context.Context, q *queue.Queue, t Taken) (batch, says string, err error) {
	o := x.o
	o.now, o.source = t.At, t.Name
	cfg, options, err := o.common(t.Environ)
	if err != nil {
		return "", "", err
	}
	options.Progress, options.Trace = t.Rows, t.Trace
	var out bytes.Buffer
	j := &job{o: &o, by: t.By, options: options, stdout: &out, stderr: &out, environ: t.Environ, line: newStatusLine(io.Discard),
		source: source{dir: tempDir(t.Environ, cfg.DataDir), taken: &t}}
	f, err := j.check(ctx, t.Name)
	if err != nil {
		return "", "", j.refused(ctx, err)
	}
	defer f.close()
	if f.rejects != "" {
		if err := t.Beside(ending(f.File), func(w io.Writer) error { return f.WriteRejects(ctx, w) }); err != nil {
			return "", "", fmt.Errorf("bad rows not written, nothing was enqueued: %w", err)
		}
		f.summary.Rejects, f.rejects = t.Path+"."+ending(f.File), ""
	}
	err = j.enqueue(ctx, q, f)
	if errors.Is(err, importer.ErrCancelled) || errors.Is(err, importer.ErrOtherContent) || errors.Is(err, importer.ErrOtherTime) || errors.Is(err, importer.ErrOtherMapping) {
		err = &Refused{err.Error(), err}
	}
	return f.Batch, strings.TrimSpace(out.String()), err
}

// ending is what stands behind a file's name in that of its rejects file.
func ending(f *importer.File) string { return strings.TrimPrefix(f.RejectsName(""), ".") }

// refused makes a *Refused of an error of the check, unless it is the system's. Where rows are
// bad, it lists all of them beside the file.
func (j *job) refused(ctx context.Context, err error) error {
	var system syscall.Errno
	if ctx.Err() != nil || errors.As(err, &system) {
		return err
	}
	why := &Refused{err.Error(), err}
	if _, bad := errors.AsType[*importer.BadRows](err); !bad {
		return why
	}
	all := *j
	all.options.SkipInvalid = true
	f, err := all.check(ctx, j.source.taken.Name)
	if err != nil {
		if ctx.Err() != nil || errors.As(err, &system) {
			return err
		}
		return why // its rows cannot be told apart
	}
	defer f.close()
	if f.summary.Invalid == 0 {
		return why
	}
	if err := j.source.taken.Beside(ending(f.File), func(w io.Writer) error { return f.WriteRejects(ctx, w) }); err != nil {
		return fmt.Errorf("bad rows not written: %w", err)
	}
	why.Why += fmt.Sprintf("\nAll bad rows (%d) are in the file beside this one whose name ends in .%s. The other rows (%d) were not enqueued, either: correct the whole file, and put it into the folder again.", f.summary.Invalid, ending(f.File), f.summary.Rows-f.summary.Invalid)
	return why
}

// Refusal says who refused an import that needed an approval, and why; "" = nobody did.
func Refusal(ctx context.Context, q *queue.Queue, batch string) (why string, err error) {
	f, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return "", err
	}
	a := f.Approvals.Imports[imports.ImportToken(batch)]
	if a == nil || a.Refused == nil {
		return "", nil
	}
	return fmt.Sprintf("%s refused it at %s: %s\nWhat waited of it was withdrawn; the results beside this file name each row. Correct the file, and put it into the folder again; rows that stay as they were are sent only with --retry-failed in the folder's flags.",
		a.Refused.Name, a.Refused.At.UTC().Format("2006-01-02 15:04:05Z"), a.Refused.Note), nil
}

// Errors of WriteResults.
var (
	// ErrUnsettled: orders of the import have no outcome yet.
	ErrUnsettled = errors.New("orders have no outcome yet")
	// ErrForgotten: nothing is known of the import any more.
	ErrForgotten = errors.New("nothing is known of the import any more; its results have expired")
)

// WriteResults writes every row of an imported file with its outcome, by finish, which also
// gets the ending of the name: a workbook for a workbook, else CSV. Error: ErrUnsettled,
// ErrForgotten.
func WriteResults(ctx context.Context, q *queue.Queue, batch string, t Taken, finish func(ending string, fill func(io.Writer) error) error) (tally importer.Tally, err error) {
	var cfg broker.Config
	if err := cli.ReadEnv(&cfg, t.Environ); err != nil {
		return nil, err
	}
	imp, err := imports.ReadImport(ctx, q, batch)
	switch {
	case err != nil:
		return nil, err
	case imp == nil:
		return nil, ErrForgotten
	}
	left, err := importer.Unsettled(ctx, q, batch)
	if err == nil && left > 0 {
		err = ErrUnsettled
	}
	if err != nil {
		return nil, err
	}
	f, err := importer.Reopen(t.Content, imp, tempDir(t.Environ, cfg.DataDir))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Check(ctx); err != nil {
		return nil, err
	}
	as := importer.FormatCSV
	if imp.Format == string(importer.FormatXLSX) {
		as = importer.FormatXLSX
	}
	err = finish("results."+string(as), func(w io.Writer) error {
		if tally, err = f.WriteResults(ctx, q, w, as); err == nil && tally.Open() > 0 {
			err = ErrUnsettled
		}
		return err
	})
	return tally, err
}
