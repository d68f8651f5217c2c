package watch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"orderpost/internal/files/importer"
	"orderpost/internal/platform/duration"
	"orderpost/internal/platform/textfile"
)

// completeness says when a file is complete.
type completeness struct {
	marker  string
	endings []string
	still   time.Duration
}

// knownEndings are the endings of files that an import reads, and of those of which it can say what
// to do with them instead.
var knownEndings = []string{"csv", "tsv", "txt", "ndjson", "jsonl", "json", "xlsx", "xls", "xlsm", "xlsb", "ods"}

// register adds the flags to a set.
func (c *completeness) register(flags *pflag.FlagSet) {
	flags.StringVar(&c.marker, "marker", c.marker, "a file NAME is complete when a file NAME with this behind it is there, such as .ok (default: no markers)")
	flags.StringSliceVar(&c.endings, "endings", c.endings, "endings of the files that are taken, also with .gz or .zst behind them; * takes any name. Files with markers need none")
	flags.Var((*duration.Value)(&c.still), "still", "how long a file must not change, where nobody can tell whether its writer has closed it")
}

// taken returns the endings of the files that are taken; nil = any.
func (c *completeness) taken() (endings []string) {
	for _, end := range c.endings {
		if end == "*" {
			return nil
		}
		endings = append(endings, strings.ToLower(strings.TrimPrefix(end, ".")))
	}
	return endings
}

// validate returns an error that names every mistake.
func (c *completeness) validate() error {
	var errs []error
	if strings.ContainsAny(c.marker, "/\\") {
		errs = append(errs, fmt.Errorf("--marker: %q stands behind the name of a file, so it has no folder", c.marker))
	}
	for _, end := range c.endings {
		if end = strings.TrimPrefix(end, "."); end == "" || strings.TrimSpace(end) != end || strings.ContainsAny(end, "/\\") {
			errs = append(errs, fmt.Errorf("--endings: %q is no ending of a name, such as csv", end))
		}
	}
	return errors.Join(errs...)
}

// folderFlags are what the file FlagsFile says: flags of enqueue that can mean every file, and
// when a file is complete.
type folderFlags struct {
	completeness
	// choices are about the moment of reading.
	choices importer.Choices
	// text and mapping are what the file and its mapping file said.
	text, mapping string
	// mappingFile is the name of the mapping file; "" = there is none.
	mappingFile string
}

// notInFolders are flags of enqueue that the file of a folder cannot have, and why.
var notInFolders = map[string]string{
	"batch": "it names one import, and each file of a folder is one; its name comes from the content", "source": "each file has its own name",
	"dry-run": "a folder is watched to import its files", "wait": "the results come by themselves, into done/", "results": "they come into done/, beside the file",
	"json": "the log tells (ORDERPOST_LOG_FORMAT=json)", "quiet": "the log tells (ORDERPOST_LOG_LEVEL=warn)", "max-stdin": "nothing is read from standard input",
	"by": "give it to orderpost watch", "note": "give it to orderpost watch",
	"broker-wait": "a folder waits for the broker in any case", "help": "see orderpost enqueue --help",
}

// parseFlags reads flags as they stand in a file: one a line, with its value behind a space or
// =, without quotes. Lines that begin with # are comments. when is what the file need not say,
// now the moment by which its times are judged; read reads a mapping file. Error: every
// mistake, with its line.
func parseFlags(text string, when completeness, now time.Time, read func(name string) ([]byte, error)) (*folderFlags, error) {
	x := &folderFlags{text: text, completeness: when, choices: importer.Choices{Now: now, Daily: true, Prefix: "--"}}
	own := pflag.NewFlagSet(FlagsFile, pflag.ContinueOnError) // the others are importer.Choices
	x.register(own)
	own.StringVar(&x.mappingFile, "mapping", "", "")
	var errs []error
	for n, line := range strings.Split(string(textfile.Decode([]byte(text))), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := x.take(line, own); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
	if len(errs) == 0 && x.mappingFile != "" {
		data, err := read(x.mappingFile)
		if err == nil {
			x.mapping = string(data)
			err = x.choices.ReadMapping(x.mappingFile, strings.NewReader(x.mapping))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--mapping: %w", err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, x.choices.Check(), x.validate())
	}
	return x, errors.Join(errs...)
}

// take reads one line.
func (x *folderFlags) take(line string, own *pflag.FlagSet) error {
	flag, isFlag := strings.CutPrefix(line, "--")
	if !isFlag {
		return fmt.Errorf("%q is no flag: a line is one flag of enqueue, such as --lane night", clip(line))
	}
	name, value := flag, ""
	if at := strings.IndexAny(flag, " \t="); at >= 0 {
		name, value = flag[:at], strings.TrimSpace(flag[at+1:])
	}
	why, not := notInFolders[name]
	ours, option := own.Lookup(name), importer.OptionOf(name)
	switch {
	case not:
		return fmt.Errorf("--%s has no place in the file of a folder: %s", name, why)
	case ours == nil && option == nil:
		return fmt.Errorf("there is no flag --%s (orderpost enqueue --help lists them)", clip(name))
	case value == "" && (ours != nil || !option.IsSwitch()):
		return fmt.Errorf("--%s needs a value", name)
	}
	if ours == nil {
		return x.choices.Set(name, value)
	}
	if err := ours.Value.Set(value); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
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
