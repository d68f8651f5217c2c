package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/sandbox"
)

// Run runs the program until ctx ends, and returns its exit code.
func Run(ctx context.Context, args []string, environ map[string]string, _ io.Reader, stdout, stderr io.Writer) int {
	cmd := newCommand(environ, stdout, stderr)
	cmd.SetArgs(append([]string{}, args...)) // for nil cobra would take the arguments of the process
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "sandbox: %s\n", strings.TrimPrefix(err.Error(), "sandbox: "))
	}
	return cli.ExitCode(err)
}

func newCommand(environ map[string]string, stdout, stderr io.Writer) *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:           "sandbox [flags]",
		Short:         "The order API as a local server, with faults on demand and a ledger",
		Long:          long,
		Example:       example,
		Version:       cli.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("%q is not expected: everything is a flag", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.resolve(cmd.Flags(), environ); err != nil {
				return usageError(fmt.Errorf("bad settings:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  ")))
			}
			for _, u := range o.meant {
				_, _ = fmt.Fprintf(stderr, "sandbox: warning: %s\n", u)
			}
			return serve(cmd.Context(), o, stdout, stderr)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	o.register(cmd.Flags())
	cli.CompleteFiles(cmd, "keys-file", "tls-ca-file")
	return cmd
}

func usageError(err error) error {
	return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%w\n(--help lists all settings)", err)}
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	o.config.Logger = o.logger(stderr)
	if host, _, err := net.SplitHostPort(o.addr); err == nil && o.config.TLS {
		o.config.Hosts = []string{host}
	}
	server, err := sandbox.New(o.config)
	if err != nil {
		return usageError(err)
	}
	url, err := server.Start(o.addr)
	if err != nil {
		return startError(err)
	}
	if o.config.TLS {
		if err := o.writeCA(server.CA()); err != nil {
			return errors.Join(err, server.Close())
		}
		defer os.Remove(o.caFile) //nolint:errcheck // its certificate is useless now
	}
	greet(stderr, o, url)
	<-ctx.Done()
	if err := server.Close(); err != nil {
		return err
	}
	return farewell(stdout, server.Ledger(), o.json)
}

// writeCA writes the certificate authority to a file and returns its absolute path.
func (o *options) writeCA(pem []byte) (err error) {
	if o.caFile, err = filepath.Abs(o.caFile); err == nil {
		err = os.WriteFile(o.caFile, pem, 0o644)
	}
	if err != nil {
		return fmt.Errorf("tls-ca-file: %w; name another place", err)
	}
	return nil
}

// startError says what to do if the sandbox cannot listen on an address.
func startError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program; stop that, or choose another address with --addr or --admin-addr", op.Addr)
	}
	return err
}

func (o *options) logger(stderr io.Writer) zerolog.Logger {
	if o.logFormat == "console" {
		stderr = zerolog.ConsoleWriter{Out: stderr, NoColor: true}
	}
	return zerolog.New(stderr).Level(o.logLevel).With().Timestamp().Logger()
}
