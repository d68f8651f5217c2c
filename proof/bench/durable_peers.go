package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"orderpost/proof/bench/contender"
)

// runRiverPostgres works the file off with River.
func runRiverPostgres(ctx context.Context, d *durableTrial) error {
	if err := d.startPostgres(ctx); err != nil {
		return err
	}
	return d.peer(ctx, "river-postgres", fmt.Sprintf("host='%s' user=%s dbname=postgres", d.dir, postgresUser), false)
}

// runRiverSQLite works the file off with River, which has SQLite inside.
func runRiverSQLite(ctx context.Context, d *durableTrial) error {
	return d.peer(ctx, "river-sqlite", filepath.Join(d.dir, "river.db"), true)
}

// runAsynq works the file off with asynq.
func runAsynq(ctx context.Context, d *durableTrial) error {
	socket, err := d.startRedis(ctx)
	if err != nil {
		return err
	}
	return d.peer(ctx, "asynq", socket, false)
}

// peer starts another job queue, which measures itself, and waits for its end. syncs says that
// its own process syncs, and not only that of its database.
func (d *durableTrial) peer(ctx context.Context, name, database string, syncs bool) error {
	if err := d.buildPeers(ctx); err != nil {
		return err
	}
	command := []string{d.peers, "--system", name, "--database", database, "--url", d.api.url, "--key", contender.APIKey,
		"--secret", contender.APISecret, "--file", d.file, "--slots", strconv.Itoa(defaultSlots)}
	var p *process
	var err error
	if syncs {
		p, err = d.startWatched(name, d.dir, d.env(), command...)
	} else {
		p, err = d.start(name, d.env(), command...)
	}
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.err != nil {
		return fmt.Errorf("it ended before its orders were done: %w", p.err)
	}
	return d.readResult(p)
}

// readResult reads the line that a peer ends with.
func (d *durableTrial) readResult(p *process) error {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	var result struct {
		BeganNS    int64 `json:"began_ns"`
		EndedNS    int64 `json:"ended_ns"`
		StartCPUNS int64 `json:"start_cpu_ns"`
		Stored     int   `json:"stored"`
	}
	at := bytes.LastIndex(text, []byte(`{"began_ns"`))
	if at < 0 {
		return errors.New("it printed no result")
	}
	if err := json.Unmarshal(text[at:], &result); err != nil {
		return err
	}
	if result.Stored < d.orders {
		return fmt.Errorf("%d outcomes are stored of %d", result.Stored, d.orders)
	}
	p.before = time.Duration(result.StartCPUNS)
	d.began, d.ended = time.Unix(0, result.BeganNS), time.Unix(0, result.EndedNS)
	return nil
}

// buildPeers compiles the other job queues, which are a module for themselves.
func (r *rig) buildPeers(ctx context.Context) error {
	if r.peers != "" {
		return nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "orderpost/proof").Output()
	if err != nil {
		return fmt.Errorf("go list -m orderpost/proof: %w", err)
	}
	path, err := r.build(ctx, filepath.Join(string(bytes.TrimSpace(out)), "peers"), "peers", ".")
	r.peers = path
	return err
}
