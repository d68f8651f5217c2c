package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/platform/durable"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

const restoreLong = `restore creates the streams of a backup, with the sequences and times that they had: in the data folder
(ORDERPOST_DATA_DIR), which must have no store, or at the broker of ORDERPOST_NATS_URL (nats-server 2.15 or later), which
must have none of the streams; there the NATS user must be an administrator. FILE is read to its end before anything is made.
With --missing, it creates the streams that were lost, beside those that are there.

What was posted after the backup was made is in no stream. So workers post nothing until somebody accepts that
(orderpost worker repair), and then count all that the backup has pending as possibly posted: with
ORDERPOST_ON_UNSURE=park, lookups or a person end that doubt. What was stored after the backup is lost:
enqueue the files of that time again.`

type restoreCommand struct {
	environ  map[string]string
	stderr   io.Writer
	identity string
	missing  bool
	json     bool
}

// restored is what restore prints with --json.
type restored struct {
	File    string    `json:"file"`
	AsOf    time.Time `json:"as_of"`
	Streams []string  `json:"streams"`
	Into    string    `json:"into"`
}

func newRestoreCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	c := &restoreCommand{environ: environ, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "restore FILE",
		Short:   "Create all streams from a backup, where there are none",
		Long:    restoreLong,
		Example: "  orderpost restore 2026-11-30.orderpost --identity key.txt\n  orderpost audit\n  orderpost worker repair",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&c.identity, "identity", "", "`file` with the private keys of age, one of which opens FILE")
	cmd.Flags().BoolVar(&c.missing, "missing", false, "create only the streams that were lost")
	cli.JSONFlag(cmd, &c.json, "restore")
	return cmd
}

func (c *restoreCommand) run(cmd *cobra.Command, path string) error {
	var cfg broker.Config
	if err := errors.Join(cli.ReadEnv(&cfg, c.environ), cfg.Queue.Validate()); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	file, err := c.open(path)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s: %w", path, err)}
	}
	_ = file.Close()
	f, err := queue.ReadBackup(func() (io.ReadCloser, error) { return c.open(path) }, cfg.Queue.StreamNames())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	is := restored{File: path, AsOf: f.Made(), Into: queue.RedactURL(cfg.Queue.URL)}
	if cfg.Queue.URL == "" {
		is.Into = "the data folder " + cfg.DataDir
	}
	if cfg.Queue.URL != "" || c.missing {
		is.Streams, err = c.intoBroker(cmd.Context(), cfg, f)
	} else {
		is.Streams, err = c.intoFolder(cmd.Context(), cfg, f)
	}
	if code := cli.ExitCode(err); err != nil && code != cli.ExitUsage && code != cli.ExitUnreachable && !errors.Is(err, queue.ErrNothingMade) {
		err = fmt.Errorf("%w\nThe restore is not complete. Start no worker: remove what is in %s of it, and restore again", err, is.Into)
	}
	if err != nil {
		return err
	}
	if c.json {
		return cli.PrintJSON(cmd.OutOrStdout(), is)
	}
	text := "Nothing is missing in " + is.Into + ". Nothing was changed."
	if len(is.Streams) > 0 {
		text = fmt.Sprintf("%s are in %s, as of %s.\nWorkers post nothing until somebody accepts what was done since: orderpost audit, then orderpost worker repair.",
			strings.Join(is.Streams, ", "), is.Into, is.AsOf.Format(time.RFC3339))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// intoFolder restores into the store of an embedded broker. It is synced once, at the end.
func (c *restoreCommand) intoFolder(ctx context.Context, cfg broker.Config, f *queue.BackupFile) (names []string, err error) {
	if embedded.HasStore(cfg.DataDir) {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("the data folder %s has a store: set ORDERPOST_DATA_DIR to an empty folder, or stop the worker and move the store away", cfg.DataDir)}
	}
	server, err := embedded.Start(embedded.Config{Dir: cfg.DataDir, Listen: "127.0.0.1:0", Temporary: true, Streams: cfg.Queue.StreamNames(), NoSync: true})
	if err != nil {
		return nil, err
	}
	cfg.Queue.URL, cfg.Queue.Token, cfg.Queue.Locate = server.URL, server.Token, nil
	names, err = c.intoBroker(ctx, cfg, f)
	server.Stop()
	return names, errors.Join(err, durable.SyncAll(cfg.DataDir))
}

func (c *restoreCommand) intoBroker(ctx context.Context, cfg broker.Config, f *queue.BackupFile) (names []string, err error) {
	q, done, err := broker.Open(ctx, cfg, broker.Options{Name: "restore", StartStopped: true, Incomplete: true, Stderr: c.stderr})
	if err != nil {
		return nil, err
	}
	defer done()
	return q.Restore(ctx, f, c.missing)
}

// ageMagic is how a file begins that age has encrypted (age-encryption.org/v1).
const ageMagic = "age-encryption.org/"

// open opens a backup for reading, and decrypts it.
func (c *restoreCommand) open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(file)
	begin, _ := in.Peek(len(armor.Header)) // a shorter file is no backup, which its reader says
	var sealed io.Reader = in
	switch {
	case string(begin) == armor.Header:
		sealed = armor.NewReader(in)
	case !strings.HasPrefix(string(begin), ageMagic):
		return &opened{in, file}, nil
	}
	plain, err := c.decrypt(sealed)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &opened{plain, file}, nil
}

func (c *restoreCommand) decrypt(in io.Reader) (io.Reader, error) {
	if c.identity == "" {
		return nil, errors.New("it is encrypted: give --identity FILE with the private key")
	}
	text, err := os.ReadFile(c.identity)
	if err != nil {
		return nil, err
	}
	identities, err := age.ParseIdentities(strings.NewReader(string(text)))
	if err != nil {
		return nil, fmt.Errorf("--identity %s has no private keys of age, AGE-SECRET-KEY-1… (with another kind of key, decrypt the backup by age -d): %w", c.identity, err)
	}
	return age.Decrypt(in, identities...)
}

// opened is a file and what is read from it.
type opened struct {
	io.Reader
	file *os.File
}

func (o *opened) Close() error { return o.file.Close() }
