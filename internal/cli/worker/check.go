package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/submit"
	"orderpost/internal/submit/answer"
)

const checkLong = `check reads the settings and the rules file as the worker would, and ends with exit code 2 if they cannot
be used. It sends nothing.

With --broker it also connects to each NATS server that it knows of, and says its version: exit code 1 if programs
refuse one, 4 if one cannot be asked.

With --answer it shows the verdict on an answer of the API: give it the output of "curl -i", or only a body
with --status, in a file or on standard input (-). For that, ORDERPOST_RULES is the only setting it needs.
The verdict is that of a worker that has seen no other answer yet.`

// newCheckCommand returns the command check, which validates settings and rules, and
// shows verdicts.
func newCheckCommand(environ map[string]string) *cobra.Command {
	var c checkCommand
	cmd := &cobra.Command{
		Use:   "check [--broker | --answer FILE|-]",
		Short: "Check settings, rules and the broker's version, and show the verdict on an answer",
		Long:  checkLong,
		Example: "  orderpost worker check --broker\n" +
			"  echo '{\"code\":40012,\"message\":\"no funds\"}' | orderpost worker check --answer - --status 200",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), environ, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.answer, "answer", "", "file with an answer of the API, - for standard input")
	f.IntVar(&c.status, "status", 0, "HTTP status of the answer, if the file holds only a body (default 200)")
	f.StringVar(&c.orderNo, "order-no", "", "number of the order that was answered: an answer that repeats it, or names another one, is judged by that")
	f.BoolVar(&c.broker, "broker", false, "also say the version of each NATS server")
	cmd.MarkFlagsMutuallyExclusive("answer", "broker")
	cli.CompleteFiles(cmd, "answer")
	cli.JSONFlag(cmd, &c.json, "check", "verdict")
	return cmd
}

type checkCommand struct {
	answer string
	status int
	// orderNo is the number of the order that was answered.
	orderNo string
	broker  bool
	json    bool
}

func (c *checkCommand) run(ctx context.Context, environ map[string]string, stdin io.Reader, stdout io.Writer) error {
	var cfg pool.Config
	if c.answer == "" {
		return c.settings(ctx, cfg, environ, stdout)
	}
	if err := cli.ReadEnv(&cfg, environ); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	raw, err := readAnswer(c.answer, stdin)
	if err != nil {
		return err
	}
	rules, err := loadRules(cfg)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	checked, err := answer.Check(rules, cfg.Submit.OnUnsure, cfg.Submit.RetryDelayMax, raw, c.status, c.orderNo)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if c.json {
		return cli.PrintJSON(stdout, verdictOf(checked))
	}
	return printChecked(stdout, checked)
}

// usable is the JSON output of check without --answer.
type usable struct {
	Usable   bool                 `json:"usable"`
	Problems []string             `json:"problems,omitempty"`
	Servers  []queue.BrokerServer `json:"servers,omitempty"`
}

// settings checks the settings, the key files and the rules, and with --broker the
// servers' versions.
func (c *checkCommand) settings(ctx context.Context, cfg pool.Config, environ map[string]string, stdout io.Writer) error {
	err := errors.Join(readConfig(&cfg, environ), checkParts(cfg, environ))
	said := usable{Usable: err == nil}
	if err != nil {
		said.Problems = strings.Split(err.Error(), "\n")
		err = &cli.ExitError{Code: cli.ExitUsage, Err: err}
	} else if c.broker {
		said.Servers, err = servers(ctx, cfg)
	}
	switch {
	case c.json:
		return errors.Join(cli.PrintJSON(stdout, said), err)
	case !said.Usable:
		return err
	}
	text := "The settings and the rules can be used. Key and secret are not tested: the worker asks for the account with the key\n" +
		"when it starts, and the first order that it posts is the first request with a signature.\n"
	for _, s := range said.Servers {
		text += describeServer(s)
	}
	_, printErr := io.WriteString(stdout, text)
	return errors.Join(err, printErr)
}

// servers returns the versions of the broker's servers. Its error has the exit code for a
// server that is refused, or that cannot be asked.
func servers(ctx context.Context, cfg pool.Config) ([]queue.BrokerServer, error) {
	if cfg.Queue.URL == "" {
		err := pool.JoinEmbedded(&cfg.Queue, cfg.DataDir)
		if errors.Is(err, queue.ErrUnreachable) { // the worker would start its own
			return []queue.BrokerServer{{Address: "compiled in", BrokerVerdict: queue.JudgeBroker(embedded.Version, false)}}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	cfg.Queue.Name = "check"
	all, err := queue.Survey(ctx, cfg.Queue)
	if err != nil {
		return all, err
	}
	for _, s := range all {
		if s.Refused != "" {
			return all, &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("the broker at %s: %s", s.Address, s.Refused)}
		}
	}
	for _, s := range all {
		if s.Problem != "" {
			return all, &cli.ExitError{Code: cli.ExitUnreachable, Err: fmt.Errorf("the broker at %s cannot be asked for its version: %s", s.Address, s.Problem)}
		}
	}
	return all, nil
}

// describeServer returns a line for a server, and one for each of its defects.
func describeServer(s queue.BrokerServer) string {
	at := strings.TrimSpace(s.Name + " " + s.Address)
	if s.Problem != "" {
		return at + ": no answer\n"
	}
	text := fmt.Sprintf("%s: nats-server %s", at, s.Version)
	if s.Refused != "" {
		return text + ", refused\n"
	}
	for _, w := range s.Warnings {
		text += "\n  warning: " + w
	}
	return text + "\n"
}

// checkParts reads the key files, compiles the rules, and reads what else ends a worker's start.
func checkParts(cfg pool.Config, environ map[string]string) error {
	var keysErr error
	if cfg.Keys.Validate() == nil { // otherwise readConfig has reported it
		_, keysErr = submit.NewFileKeys(cfg.Keys, pool.NewSigner)
	}
	_, rulesErr := loadRules(cfg)
	_, schemaErr := cfg.Schema.Load(zerolog.Nop())
	return errors.Join(keysErr, rulesErr, schemaErr, cfg.Submit.CheckFiles(),
		cfg.Gateway.CheckFiles(), // room: gateway
		cfg.Notify.CheckFiles(),  // room: notify
	)
}

// loadRules returns nil if no rules file is set.
func loadRules(cfg pool.Config) (*answer.Rules, error) {
	if cfg.Submit.Rules == "" {
		return nil, nil
	}
	return answer.LoadRules(cfg.Submit.Rules, cfg.Submit.RuleTimes())
}

func readAnswer(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, 16<<20))
	}
	return os.ReadFile(name)
}

func printChecked(out io.Writer, c answer.Checked) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("status", fmt.Sprint(c.Status))
	row("verdict", c.Verdict.String())
	rule := "built in"
	if c.Rule > 0 {
		rule = fmt.Sprintf("rule %d, line %d of the rules file", c.Rule, c.Line)
	}
	row("by", rule)
	row("reason", c.Reason)
	row("detail", c.Detail)
	if c.Wait > 0 {
		scope := "this order"
		if c.Throttle {
			scope = "the whole pool"
		}
		row("wait", c.Wait.Round(time.Millisecond).String()+", "+scope)
	}
	row("on a proven first attempt", becomes(c.First))
	row("after an unsure one", becomes(c.Doubted))
	row("the pool", held(c.Hold))
	return w.Flush()
}

func becomes(o order.Outcome) string {
	if o == order.OutcomeNone {
		return "asked again"
	}
	return o.String() + ": " + o.Meaning()
}

func held(why string) string {
	if why == "" {
		return "goes on"
	}
	return "is held: " + why
}

// verdict is the JSON output of check --answer.
type verdict struct {
	Status  int           `json:"status"`
	Verdict order.Verdict `json:"verdict"`
	Final   bool          `json:"final"`
	Reason  string        `json:"reason"`
	Detail  string        `json:"detail,omitempty"`
	// Rule and Line are 0 for a built-in verdict.
	Rule      int           `json:"rule"`
	Line      int           `json:"line"`
	WaitMS    int64         `json:"wait_ms"`
	Throttle  bool          `json:"throttle"`
	TimeError bool          `json:"time_error"`
	Hold      string        `json:"hold,omitempty"`
	First     order.Outcome `json:"first,omitzero"`
	Doubted   order.Outcome `json:"doubted,omitzero"`
}

func verdictOf(c answer.Checked) verdict {
	return verdict{Status: c.Status, Verdict: c.Verdict, Final: c.Final, Reason: c.Reason, Detail: c.Detail, Rule: c.Rule, Line: c.Line,
		WaitMS: c.Wait.Milliseconds(), Throttle: c.Throttle, TimeError: c.TimeError, Hold: c.Hold, First: c.First, Doubted: c.Doubted}
}
