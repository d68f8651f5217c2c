package enqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/internal/platform/textfile"
	"orderpost/internal/sign"
)

// signFlags holds the flags of the command sign.
type signFlags struct {
	explain, json bool
	timestampMS   int64
	signature     string
	pair          int
}

const signLong = `Sign an order's body as a worker would, without sending it.

The body is read from a file, or from standard input for "-". The secret comes
from ORDERPOST_API_SECRET, or from the file named by ORDERPOST_API_SECRET_FILE,
and is never printed; where several are set, one a line, --pair says which one
signs. The timestamp is the current time unless --timestamp gives
another one; a timestamp in the body is replaced.

Without --explain only the signature is printed. A refused body ends with exit
code 3 and the code of the rule that it breaks. A given signature that differs is
no failure.`

// NewSignCommand returns the command sign. It signs one body and explains the
// signature, and why a given one differs. The exit code is [cli.ExitPartial] for a
// refused body, [cli.ExitUsage] for a missing secret or wrong usage, and
// [cli.ExitFailed] for an unreadable file.
func NewSignCommand(environ map[string]string, stdin io.Reader, stdout io.Writer) *cobra.Command {
	var flags signFlags
	command := &cobra.Command{
		Use:     "sign [--explain] FILE|-",
		Short:   "Sign a body without sending it, and explain its signature",
		Long:    signLong,
		Example: "  orderpost sign --explain order.json\n  orderpost sign --timestamp 1700000000000 --signature 08dac7… - < order.json",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			if !command.Flags().Changed("timestamp") {
				flags.timestampMS = time.Now().UnixMilli()
			}
			return runSign(flags, args[0], environ, stdin, stdout)
		},
	}
	command.Flags().BoolVar(&flags.explain, "explain", false, "show the canonical body, the string to sign and warnings too")
	cli.CompleteFiles(command)
	cli.JSONFlag(command, &flags.json, "signature")
	command.Flags().Int64Var(&flags.timestampMS, "timestamp", 0, "sign with this timestamp, in milliseconds since 1970 (default: now)")
	command.Flags().StringVar(&flags.signature, "signature", "", "say whether this signature is the right one, and where to look if it is not")
	command.Flags().IntVar(&flags.pair, "pair", 1, "sign with the secret of this key pair, counted from 1")
	return command
}

func runSign(flags signFlags, path string, environ map[string]string, stdin io.Reader, stdout io.Writer) error {
	secret, err := secretFrom(environ, flags.pair)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	body, err := readBody(path, stdin)
	if err != nil {
		return err
	}
	explanation, err := sign.Explain(body, secret, flags.timestampMS, flags.signature)
	if err != nil {
		return signError(err)
	}
	switch {
	case flags.json:
		return printJSON(stdout, explanation)
	case flags.explain || flags.signature != "":
		return printExplanation(stdout, explanation)
	default:
		_, err = fmt.Fprintln(stdout, explanation.Signature)
		return err
	}
}

// signError adds the exit code to an error of sign.Explain.
func signError(err error) error {
	var refused *order.Error
	if errors.As(err, &refused) {
		return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("refused, %s: %w", refused.Code, err)}
	}
	return &cli.ExitError{Code: cli.ExitUsage, Err: err} // the secret or the timestamp
}

// readBody reads the body, but at most one byte more than a body may have.
func readBody(path string, stdin io.Reader) ([]byte, error) {
	source := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		source = file
	}
	body, err := io.ReadAll(io.LimitReader(source, order.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	return body, nil
}

func printJSON(stdout io.Writer, explanation sign.Explanation) error {
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false) // the strings are shown as they are signed
	encoder.SetIndent("", "  ")
	return encoder.Encode(explanation)
}

func printExplanation(stdout io.Writer, explanation sign.Explanation) error {
	text := fmt.Sprintf("canonical body:\n%s\n\nstring to sign:\n%s\n\nsignature:\n%s\n",
		explanation.Canonical, explanation.StringToSign, explanation.Signature)
	if len(explanation.Warnings) > 0 {
		text += "\nwarnings:\n"
	}
	for _, warning := range explanation.Warnings {
		text += fmt.Sprintf("- %s\n", warning)
	}
	if explanation.Given != nil {
		text += fmt.Sprintf("\n%s\n", explanation.Given)
	}
	_, err := io.WriteString(stdout, text)
	return err
}

// The settings for the API secret. One of them is set.
const (
	secretSetting     = "ORDERPOST_API_SECRET"
	secretFileSetting = "ORDERPOST_API_SECRET_FILE"
)

// secretFrom reads the API secret of a key pair, counted from 1, as the worker does:
// from the environment, or from the file that the environment names, one secret per
// line. Spaces belong to a secret. Errors do not quote it.
func secretFrom(environ map[string]string, pair int) (string, error) {
	name, text := secretSetting, environ[secretSetting]
	path := environ[secretFileSetting]
	switch {
	case text != "" && path != "":
		return "", fmt.Errorf("%s and %s are both set: give one of them", secretSetting, secretFileSetting)
	case text == "" && path == "":
		return "", fmt.Errorf("no API secret: set %s or %s", secretSetting, secretFileSetting)
	case path != "":
		data, err := textfile.Read(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", secretFileSetting, err)
		}
		name, text = secretFileSetting, string(data)
	}
	found := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		if found++; found == pair {
			return line, nil
		}
	}
	return "", fmt.Errorf("%s holds %d secret(s), and --pair asks for number %d", name, found, pair)
}
