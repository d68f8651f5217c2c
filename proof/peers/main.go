// Command peers works off the orders of the bench with other people's job queues, the
// way their documents advise. It is a module of its own, because neither the product nor
// its proof should require what these need.
//
//	main.go      the flags, and what is printed
//	river.go     River: insert the orders, post each, wait until all outcomes are stored
//	databases.go the databases that River stores jobs in
//	post.go      one signed POST
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// options are the flags.
type options struct {
	system, database     string
	url, key, secret     string
	file                 string
	slots                int
	cooldown, fetchEvery time.Duration
}

// result is printed as JSON when every outcome is stored.
type result struct {
	BeganNS    int64 `json:"began_ns"`     // when the file was opened
	EndedNS    int64 `json:"ended_ns"`     // when the last outcome was seen to be stored
	StartCPUNS int64 `json:"start_cpu_ns"` // what this process used before it began
	Stored     int   `json:"stored"`       // outcomes
}

func main() {
	var o options
	flag.StringVar(&o.system, "system", "", "river-postgres or river-sqlite")
	flag.StringVar(&o.database, "database", "", "URL of the Postgres database, or file of the SQLite database")
	flag.StringVar(&o.url, "url", "", "URL of the API")
	flag.StringVar(&o.key, "key", "", "API key")
	flag.StringVar(&o.secret, "secret", "", "API secret")
	flag.StringVar(&o.file, "file", "", "orders, one JSON object a line")
	flag.IntVar(&o.slots, "slots", 64, "orders in flight")
	flag.DurationVar(&o.cooldown, "cooldown", 5*time.Millisecond, "River's FetchCooldown")
	flag.DurationVar(&o.fetchEvery, "poll", 50*time.Millisecond, "River's FetchPollInterval")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var r result
	var err error
	switch o.system {
	case "river-postgres":
		r, err = onPostgres(ctx, o)
	case "river-sqlite":
		r, err = onSQLite(ctx, o)
	default:
		err = errors.New("--system: use river-postgres or river-sqlite")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
