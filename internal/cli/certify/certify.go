// Package certify is the command that learns how a test API behaves and writes the rules and settings that follow.
package certify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/fleet"
	"orderpost/internal/platform/textfile"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sign"
	"orderpost/internal/submit"
	"orderpost/internal/submit/certify"
)

type command struct {
	environ        map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer

	order, orderNo, host string
	rules, settings      string
	lookup               string
	burst                int
	pause                time.Duration
	idle                 []time.Duration
	created              bool
	learn                certify.Config
	base                 *url.URL
}

// NewCommand returns the command.
func NewCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	c := &command{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "certify --order FILE",
		Short: "Learn how a test API behaves, and write rules and settings for it",
		Long: "certify sends orders to a test API: one that should succeed, the same again, another body under its number, a\n" +
			"wrong signature, an unknown key, timestamps that are off, an order without timeout, one whose connection is cut,\n" +
			"a lookup where --lookup says how, and a burst. It writes a rules file, each rule with the answer that it was made from, and the settings that\n" +
			"follow, and reports what was shown and what was not. It creates orders: it says how many, and lists their\n" +
			"numbers at the end. It sends one wrong signature and one unknown key.\n\n" +
			"The address and the key pair are settings of their own: " + Prefix + "API_URL, " + Prefix + "API_KEY and\n" +
			Prefix + "API_SECRET (or …_FILE). Any other setting of a worker, such as API_CA_FILE, is read with that prefix,\n" +
			"too, and otherwise without it. certify refuses the address that the orders of the data folder or the fleet\n" +
			"belong to, and asks for the host's name.\n\n" +
			"Exit code 3: the first order was not created, or orders that succeed are not told from others.",
		Example: "  " + Prefix + "API_URL=https://api.test.example orderpost certify --order sample.json --order-no 'CERT-{n}' --yes api.test.example\n" +
			"  set -a; . ./certify.env; orderpost worker",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.order, "order", "", "`file` with the JSON of an order that the API should accept; its order_no is replaced")
	f.StringVar(&c.orderNo, "order-no", "CERT-"+strconv.FormatInt(time.Now().Unix(), 36)+"-{n}", "order numbers; {n} counts from 1")
	f.Lookup("order-no").DefValue = "CERT-TIME-{n}"
	f.StringVar(&c.host, "yes", "", "the `host` of the test API, so that certify does not ask for it")
	f.BoolVar(&c.created, "created", false, "if the first order's answer does not say that it was created: you know that it was")
	f.StringVar(&c.lookup, "lookup", "", "how the API is asked whether it has an order, as in 'GET /v1/order/{order_no}'; certify then writes the rules for that, too")
	f.IntVar(&c.burst, "burst", 50, "orders sent at once at the end, until the API throttles; 0 = none")
	f.DurationVar(&c.pause, "pause", 1100*time.Millisecond, "time between two requests")
	f.DurationSliceVar(&c.idle, "idle", []time.Duration{5 * time.Second, 15 * time.Second, time.Minute}, "for how long connections are left unused, shortest first")
	f.StringVar(&c.rules, "rules", "certify-rules.yaml", "`file` to write the rules to")
	f.StringVar(&c.settings, "settings", "certify.env", "`file` to write the settings to")
	cli.NotEmpty(cmd, "order", "order-no", "yes", "lookup", "rules", "settings")
	cli.CompleteFiles(cmd, "order", "rules", "settings")
	cli.NoJSON(cmd, "it writes files, and its report is for the person who decides by it")
	return cmd
}

// Prefix is that of the settings which are certify's own.
const Prefix = cli.CertifyPrefix

// readSettings reads certify's settings: those of a worker, but for its address and its key pair.
func (c *command) readSettings() (keys submit.KeyConfig, files broker.Config, err error) {
	own := make(map[string]string)
	for name, value := range c.environ {
		if !strings.HasPrefix(name, cli.EnvPrefix+"API_URL") && !strings.HasPrefix(name, cli.EnvPrefix+"API_KEY") && !strings.HasPrefix(name, cli.EnvPrefix+"API_SECRET") {
			own[name] = value
		}
	}
	for name, value := range c.environ {
		if rest, is := strings.CutPrefix(name, Prefix); is {
			own[cli.EnvPrefix+rest] = value
		}
	}
	api := &c.learn.API
	err = errors.Join(cli.ReadEnv(api, own), cli.ReadEnv(&keys, own), api.Validate(), keys.Validate(), cli.ReadEnv(&files, c.environ), files.Queue.Validate())
	if err != nil {
		text := err.Error()
		for _, name := range []string{"API_URL", "API_KEY", "API_SECRET"} {
			text = strings.ReplaceAll(text, cli.EnvPrefix+name, Prefix+name)
		}
		return keys, files, errors.New(text)
	}
	c.base, err = url.Parse(api.URL)
	return keys, files, err
}

func (c *command) run(ctx context.Context) error {
	keys, files, err := c.readSettings()
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			err = errors.Join(err, fmt.Errorf(format, args...))
		}
	}
	bad(c.order == "", "--order: name a file with an order that the API should accept")
	bad(!strings.Contains(c.orderNo, "{n}"), "--order-no: %q has no {n}, so all orders would have one number", c.orderNo)
	bad(c.burst < 0 || c.burst > 1000, "--burst: %d is not between 0 and 1000", c.burst)
	bad(c.host == "" && !cli.IsTerminal(c.stdin), "there is no terminal to ask on; give --yes HOST")
	for _, path := range []string{c.rules, c.settings} {
		_, none := os.Stat(path)
		bad(none == nil, "%s exists already; name another file (--rules, --settings)", path)
	}
	if c.lookup != "" {
		var wrong error
		c.learn.Lookup, wrong = certify.ParseLookup(c.lookup)
		c.learn.LookupRequest = c.lookup
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if c.learn.Order, err = textfile.Read(c.order); err != nil {
		return err
	}
	source, err := submit.NewFileKeys(keys, func(secret string) (submit.Signer, error) { return sign.New(secret) })
	if err != nil {
		return err
	}
	pairs, err := source.Pairs()
	if err != nil {
		return err
	}
	c.learn.Pair, c.learn.OrderNo, c.learn.Burst, c.learn.Pause, c.learn.Idle = pairs[0], c.orderNo, c.burst, c.pause, c.idle
	c.learn.Created, c.learn.Tell = c.asked, func(line string) { c.say(c.stderr, "%s", line) }
	if err := c.refuseKnown(ctx, files); err != nil {
		return err
	}
	if err := c.confirm(); err != nil {
		return err
	}
	found, err := certify.Learn(ctx, c.learn)
	return c.write(found, err)
}

func (c *command) say(to io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(to, cli.Printable(fmt.Sprintf(format, args...))) // Guard reports it
}

// refuseKnown refuses the API that the orders of the data folder, or of the fleet, belong to.
func (c *command) refuseKnown(ctx context.Context, cfg broker.Config) error {
	if cfg.Queue.URL == "" && !embedded.HasStore(cfg.DataDir) {
		return nil
	}
	q, done, err := broker.Open(ctx, cfg, broker.Options{Name: "certify", StartStopped: true, Incomplete: true, Stderr: c.stderr})
	if err != nil {
		return fmt.Errorf("whether %s is the API of real orders cannot be looked up: %w", c.base.Host, err)
	}
	defer done()
	have, err := fleet.New(q).Claimed(ctx)
	if errors.Is(err, fleet.ErrNoIdentity) || errors.Is(err, queue.ErrNoKey) {
		return nil
	}
	if err != nil {
		return err
	}
	known, err := url.Parse(have.Identity.Normal().URL)
	want, _ := url.Parse(fleet.Identity{URL: c.learn.API.URL}.Normal().URL) // readSettings has parsed it
	if err != nil || known.Host == want.Host {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("the orders here belong to %s; nothing was sent. certify creates orders: give it a test API (%sAPI_URL), or another data folder if that is one", have, Prefix)}
	}
	return nil
}

// confirm makes the person type the host.
func (c *command) confirm() error {
	c.say(c.stderr, "certify creates up to %d orders at %s, named %s, and sends one wrong signature and one unknown key.", c.learn.Orders(), c.base.Host, c.orderNo)
	typed := c.host
	if typed == "" {
		_, _ = fmt.Fprint(c.stderr, "Type the host of the test API to go on: ")
		_, _ = fmt.Fscanln(c.stdin, &typed) // nothing typed is not the host
	}
	if !strings.EqualFold(typed, c.base.Host) && !strings.EqualFold(typed, c.base.Hostname()) {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("nothing was sent: %q is not the host, %s", typed, c.base.Host)}
	}
	return nil
}

// asked asks whether the first order exists.
func (c *command) asked(orderNo, answer string) bool {
	c.say(c.stderr, "The answer to order %s does not say that it was created: %s", orderNo, answer)
	return c.created || cli.IsTerminal(c.stdin) && cli.SaysYes(c.stdin, c.stderr, "Look at the API. Does the order exist?")
}

// write writes what was found, also if the end was early.
func (c *command) write(found *certify.Findings, err error) error {
	if found == nil {
		return err
	}
	c.say(c.stdout, "%s", found.Report())
	if err == nil {
		rules, _ := filepath.Abs(c.rules) // "" is refused
		if text := found.RulesFile(); text != "" {
			err = os.WriteFile(c.rules, []byte(text), 0o600)
			c.say(c.stdout, "The rules are in %s.", c.rules)
		}
		if err == nil {
			err = os.WriteFile(c.settings, []byte(found.Settings(rules)), 0o600)
			c.say(c.stdout, "The settings are in %s: %s", c.settings, found.Policy())
		}
	}
	switch {
	case errors.Is(err, certify.ErrNothingLearnt):
		return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("%w; --created says that it was, if you know it from the API", err)}
	case err == nil && !found.Usable():
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New("orders that succeed are not told from others")}
	}
	return err
}
