package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/console"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// live is the demo with a page: it works off the file, and then orders keep coming
// in until ctx ends, so that the page lives.
func (st *stage) live(ctx context.Context, stderr io.Writer) error {
	page, done, err := st.openConsole(ctx, stderr)
	if err != nil {
		return err
	}
	defer done()
	defer page.Stop()
	_, _ = fmt.Fprintf(stderr, "The demo imports %s, and then a few new orders come in each second. Ctrl-C ends it.\n", st.o.file)
	err = st.whileWorking(ctx, func(stopped chan error) error {
		if _, err := st.enqueue(ctx, stopped, stderr); err != nil {
			return err
		}
		return st.trickle(ctx, stopped)
	})
	if ctx.Err() != nil && err != nil && !errors.Is(err, ctx.Err()) {
		return err
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C is how this demo ends
	}
	return err
}

// openConsole serves the console on the demo's broker.
func (st *stage) openConsole(ctx context.Context, stderr io.Writer) (*console.Server, func(), error) {
	var cfg console.Config
	if err := cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_CONSOLE_LISTEN": st.o.listen}); err != nil {
		return nil, nil, err
	}
	qcfg := queue.DefaultConfig()
	qcfg.URL, qcfg.Token, qcfg.Name, qcfg.Missing = st.broker.URL, st.broker.Token, "demo console", queue.LeaveMissing
	q, err := queue.Open(ctx, qcfg, st.log)
	if err != nil {
		return nil, nil, err
	}
	s, err := console.Listen(ctx, console.Options{Config: cfg, Queue: q, DataDir: st.o.dir, Version: cli.Version(), Starter: st.environ["USER"], Log: st.log,
		Announce: func(line string) { _, _ = fmt.Fprintln(stderr, line) }})
	if errors.Is(err, console.ErrConfig) {
		err = &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if err != nil {
		q.Close()
		return nil, nil, err
	}
	return s, q.Close, nil
}

// The rate at which orders come in: it rises and falls between zero and twice the
// mean, as in a real day.
const (
	trickleEvery = 250 * time.Millisecond
	trickleMean  = 3.0 // orders per second
	trickleDay   = 3 * time.Minute
)

// trickle enqueues new orders until ctx ends.
func (st *stage) trickle(ctx context.Context, stopped chan error) error {
	tick := time.NewTicker(trickleEvery)
	defer tick.Stop()
	random := rand.New(rand.NewPCG(st.o.seed, 0))
	began, due, n := time.Now(), 0.0, 0
	for {
		if err := st.pause(ctx, tick.C, stopped); err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		day := time.Since(began).Seconds() / trickleDay.Seconds()
		for due += trickleMean * trickleEvery.Seconds() * (1 + math.Sin(2*math.Pi*day)); due >= 1; due-- {
			n++
			if err := st.publish(ctx, fmt.Sprintf("LIVE-%05d", n), random); err != nil {
				return err
			}
		}
	}
}

// publish enqueues one order of an imaginary shop.
func (st *stage) publish(ctx context.Context, no string, random *rand.Rand) error {
	item := []string{"cable 3 m", "filter Ø 40", "hinge", "pump", "valve ½″"}[random.IntN(5)]
	body, err := json.Marshal(map[string]any{"order_no": no, "timeout": 30 * (1 + random.IntN(4)), "item": item,
		"quantity": fmt.Sprint(1 + random.IntN(9)), "amount": fmt.Sprintf("%.2f", 5+random.Float64()*400), "currency": []string{"EUR", "JPY", "USD"}[random.IntN(3)]})
	if err != nil {
		return err
	}
	in := settle.Intent{OrderNo: no, Body: body, ID: "live:" + no, Batch: "live", Source: "the demo's shop"}
	return st.queue.PublishMany(ctx, []settle.Intent{in})[0].Err
}
