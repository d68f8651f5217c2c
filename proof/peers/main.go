// Command peers works off the orders of the bench with other people's job queues, the
// way their documents advise. It is a module of its own, because neither the product nor
// its proof should require what these need.
//
//	main.go      the flags
//	measure.go   put the file's orders into a system, wait until all outcomes are stored
//	river.go     River
//	databases.go the databases that River stores jobs in
//	asynq.go     asynq, which stores tasks in Redis
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

func main() {
	var o options
	flag.StringVar(&o.system, "system", "", "river-postgres, river-sqlite or asynq")
	flag.StringVar(&o.database, "database", "", "URL of the Postgres database, file of the SQLite database, or socket of Redis")
	flag.StringVar(&o.url, "url", "", "URL of the API")
	flag.StringVar(&o.key, "key", "", "API key")
	flag.StringVar(&o.secret, "secret", "", "API secret")
	flag.StringVar(&o.file, "file", "", "orders, one JSON object a line")
	flag.IntVar(&o.slots, "slots", 64, "orders in flight")
	flag.DurationVar(&o.cooldown, "cooldown", 5*time.Millisecond, "River's FetchCooldown")
	flag.DurationVar(&o.fetchEvery, "poll", 50*time.Millisecond, "River's FetchPollInterval, asynq's TaskCheckInterval")
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
	case "asynq":
		r, err = onAsynq(ctx, o)
	default:
		err = errors.New("--system: use river-postgres, river-sqlite or asynq")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
