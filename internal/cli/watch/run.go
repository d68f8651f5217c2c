// Package watch is the command orderpost watch: it imports the files that other systems drop
// in a folder. Which files are complete, and how they move, is package folder's; how they are
// read and stored is package importer's.
//
//	run.go      the command
//	watch.go    the folder and its subfolders
//	unit.go     one of them: its flags, and the files that are complete
//	flags.go    what the file of flags says
//	jobs.go     a file that was taken: import, move, results
//	import.go   its import, by the steps of enqueue
package watch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/traces"
	"orderpost/internal/files/folder"
	"orderpost/internal/fleet"
)

// FlagsFile is the file with a folder's flags.
const FlagsFile = "enqueue.flags"

type settings struct {
	Broker    broker.Config
	LogLevel  string `env:"LOG_LEVEL" envDefault:"info"`
	LogFormat string `env:"LOG_FORMAT" envDefault:"auto"`
}

// pace says how often and how long. Tests are faster.
type pace struct {
	look    time.Duration // between two looks at a folder
	settle  time.Duration // folder.Rules.Settle
	reread  time.Duration // between two looks at flags, subfolders, and a lock that is taken
	first   time.Duration // the first pause after a failure, and before looking for results
	longest time.Duration // such a pause grows to this
}

// A file is taken after settle, one look, and the copy: within two seconds.
var usual = pace{look: 250 * time.Millisecond, settle: time.Second, reread: time.Second, first: time.Second, longest: 15 * time.Second}

// defaultStill is the default of --still. Somebody who sends a file over a network may pause.
const defaultStill = 10 * time.Second

// options are what a test changes.
type options struct {
	pace pace
	step func(string) // folder.Open
}

// NewCommand returns the command watch.
func NewCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	return newCommand(environ, stderr, options{pace: usual})
}

func newCommand(environ map[string]string, stderr io.Writer, o options) *cobra.Command {
	when := completeness{still: defaultStill, endings: knownEndings}
	var person broker.Person
	cmd := &cobra.Command{
		Use:   "watch DIR",
		Short: "Import the files that other systems drop in a folder",
		Long: "watch imports each file of a folder as `orderpost enqueue` does, once it is complete: the file moves to done/, and\n" +
			"its results come beside it when every order has its outcome. A file that cannot be imported moves to refused/,\n" +
			"with a file beside it that says why, and one with its bad rows. It may be killed at any moment: the next one\n" +
			"goes on, and neither loses nor repeats a file. Of several on one folder one works, and another takes over.\n\n" +
			"A subfolder is watched if it has a file " + FlagsFile + ": flags of enqueue, one a line, such as --lane night or\n" +
			"--mapping mapping.yaml, and --marker, --endings or --still. It may be empty. DIR itself needs none.\n\n" +
			"A file is complete when nobody has it open for writing and it has not changed for a second, or when its\n" +
			"marker is there. Without markers only the endings of --endings are taken: browsers and other programs write\n" +
			"under names of their own (.crdownload, .part, none). Names that begin with a dot or ~$ never are.\n" +
			"`orderpost help csv folder` says more.\n\n" +
			"Exit codes: 0 stopped; 1 failed; 2 wrong usage or configuration; 4 broker out of reach.",
		Example: "  orderpost watch /srv/orders\n  orderpost watch /srv/orders --marker .ok",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := when.validate(); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			return serve(cmd, &watcher{options: o, dir: filepath.Clean(args[0]), environ: environ, when: when, by: person.On(cmd)}, stderr)
		},
	}
	cmd.Flags().SortFlags = false
	when.register(cmd.Flags())
	person.Register(cmd, environ)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	cli.NoJSON(cmd, "it runs until it is stopped; ORDERPOST_LOG_FORMAT=json makes its log JSON")
	return cmd
}

func serve(cmd *cobra.Command, w *watcher, stderr io.Writer) error {
	var cfg settings
	err := errors.Join(cli.ReadEnv(&cfg, w.environ), cfg.Broker.Queue.Validate())
	log, logErr := cli.NewLogger(stderr, cfg.LogLevel, cfg.LogFormat, w.environ)
	if err = errors.Join(err, logErr, w.usable()); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	q, done, err := broker.Open(cmd.Context(), cfg.Broker, broker.Options{Name: "watch", Stderr: stderr, Tell: func(line string) { log.Warn().Msg(line) }})
	if err != nil {
		return err
	}
	defer done()
	tracing := traces.Start(cmd.Context(), "watch", "", w.environ, log)
	defer tracing.Stop()
	w.q, w.log, w.trace, w.wrong = q, log, tracing.Producer(), make(map[string]string)
	w.door = fleet.Door{Kind: fleet.DoorWatch, Name: w.dir, Since: time.Now().UTC(), Version: cli.Version()}
	if abs, err := filepath.Abs(w.dir); err == nil {
		w.door.Name = abs
	}
	w.run(cmd.Context())
	return nil
}

// usable returns an error if the folder cannot be watched.
func (w *watcher) usable() error {
	info, err := os.Stat(w.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s is not there; make it, or name another one (to follow an import: orderpost enqueue watch BATCH)", w.dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder; name the folder in which files are dropped", w.dir)
	}
	f, err := folder.Open(w.dir, nil)
	switch {
	case errors.Is(err, folder.ErrInUse):
		return nil // this process waits for its turn
	case err != nil:
		return cannot(w.dir, err)
	}
	defer f.Close()
	if _, err = readFlags(f, w.when, false); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(w.dir, FlagsFile), err)
	}
	return nil
}

// cannot says what a folder needs.
func cannot(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the folder %s cannot be watched: %w; the user of this program needs the rights to read, write and search it, because files move to %s/ and %s/ in it", dir, err, folder.Done, folder.Refused)
	}
	return fmt.Errorf("the folder %s cannot be watched: %w", dir, err)
}

// logger tells a thing once, until it changes.
type logger struct {
	zerolog.Logger
	told map[string]string
	w    *watcher
}

// once logs what is wrong with something; "" = it is right again.
func (l *logger) once(about, wrong string) {
	if l.told[about] == wrong {
		return
	}
	l.w.note(about, wrong)
	if wrong != "" {
		l.Warn().Str("about", about).Msg(wrong)
		l.told[about] = wrong
		return
	}
	delete(l.told, about)
	l.Info().Str("about", about).Msg("goes on")
}
