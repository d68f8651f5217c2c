package sandbox

import (
	"fmt"
	"io"
	"text/tabwriter"

	"orderpost/internal/cli"
	"orderpost/internal/platform/endpoint"
	"orderpost/internal/sandbox"
)

const long = `The order API as a local server.

It answers GET /v1/account and POST /v1/order/create, verifies API keys and
signatures with code of its own, keeps orders in memory, and keeps a ledger of
what it created. Faults can be injected at given rates, and repeat with the
same seed. It moves no money and creates nothing outside this process.

While it runs:
  GET    /_sandbox/ledger             what was answered and created, as JSON
  GET    /_sandbox/orders             every order_no, a JSON object a line
  GET    /_sandbox/orders/{order_no}  one of them
  GET    /_sandbox/requests           the last requests (with --trail)
  GET    /_sandbox/config             the settings of now
  PUT    /_sandbox/config             changes settings, by the names of the flags
  PUT    /_sandbox/keys/{key}         adds a key pair: {"secret":"..."}
  DELETE /_sandbox/keys/{key}         revokes one

Each flag has an environment variable: --fault-503 is ORDERPOST_SANDBOX_FAULT_503.
ORDERPOST_SANDBOX_KEYS holds key pairs, key:secret, one a line; --log-level and
--log-format are ORDERPOST_LOG_LEVEL and ORDERPOST_LOG_FORMAT. A flag wins.

It stops on SIGINT or SIGTERM and prints the ledger's summary.
Exit codes: 0 stopped, 1 failed (address in use), 2 wrong usage or setting.`

const example = `  sandbox
  sandbox --fault-503 0.05 --fault-drop-after 0.02 --fault-refuse 0.01 --max-faults-per-order 3
  sandbox --manner code --duplicates return --latency 80ms --jitter 40ms --rate 200
  sandbox --tls --tls-ca-file /tmp/sandbox-ca.pem
  curl -X PUT http://127.0.0.1:8089/_sandbox/config -d '{"fault-503": 1}'
  curl http://127.0.0.1:8089/_sandbox/ledger`

// greet prints the server's address and the settings for a worker.
func greet(w io.Writer, o *options, url string) {
	fmt.Fprintf(w, "This is a sandbox: orders are kept in memory and go nowhere.\nListening on %s\n", url)
	if !endpoint.Local(o.addr) {
		fmt.Fprintf(w, "Warning: %s is not a loopback address; anyone who reaches it can change its settings and keys.\n", o.addr)
	}
	fmt.Fprintf(w, "\nFor the worker:\n  export ORDERPOST_API_URL=%s\n", url)
	if o.config.TLS {
		fmt.Fprintf(w, "  export ORDERPOST_API_CA_FILE=%s\n", o.caFile)
	}
	if o.ownKeys {
		fmt.Fprintf(w, "  export ORDERPOST_API_KEY=...     # of the key pairs that were given\n  export ORDERPOST_API_SECRET=...\n\n")
		return
	}
	fmt.Fprintf(w, "  export ORDERPOST_API_KEY=%s\n  export ORDERPOST_API_SECRET=%s\n\n", defaultKey, defaultSecret)
}

// farewell prints the summary of the ledger.
func farewell(w io.Writer, l sandbox.Ledger, asJSON bool) error {
	if asJSON {
		return cli.PrintReport(w, l)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "requests\t%d\n", l.Requests)
	for _, a := range sandbox.Answers() {
		if n := l.Answers[a.String()]; n > 0 {
			fmt.Fprintf(t, "  %s\t%d\n", a, n)
		}
	}
	fmt.Fprintf(t, "order numbers seen\t%d\n", l.OrdersSeen)
	fmt.Fprintf(t, "  created\t%d\n", l.OrdersCreated)
	fmt.Fprintf(t, "  created more than once\t%d\n", l.CreatedTwice)
	for _, f := range sandbox.FaultKinds() {
		if n := l.Faults[f.String()]; n > 0 {
			fmt.Fprintf(t, "fault %s\t%d\n", f, n)
		}
	}
	return t.Flush()
}
