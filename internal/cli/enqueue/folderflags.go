package enqueue

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the container image has no zones

	"github.com/spf13/cobra"

	"orderpost/internal/files/importer"
	"orderpost/internal/platform/duration"
	"orderpost/internal/platform/textfile"
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
