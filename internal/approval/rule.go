package approval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// ruleEvery is the pause before a worker tries again to store its rule, and between its looks
// whether the fleet has one.
const ruleEvery = 5 * time.Second

// SetRule makes a worker's setting the rule of the fleet, and returns once it is, or ctx
// ended. An empty setting leaves the fleet's rule as it is. The journal has each change.
func SetRule(ctx context.Context, q *queue.Queue, setting, worker, version string, log zerolog.Logger) {
	if setting == "" {
		return
	}
	for {
		err := setRule(ctx, q, setting, worker, version, log, true)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Error().Err(err).Msg("the rule of ORDERPOST_APPROVALS cannot be stored, so this worker feeds nothing from the waiting room; will retry")
		_ = settle.Sleep(ctx, ruleEvery)
	}
}

// KeepRule makes a worker's setting the rule again whenever the fleet has none, because its
// bucket was lost or put back from a backup, until ctx ends. A rule of another worker stays.
func KeepRule(ctx context.Context, q *queue.Queue, setting, worker, version string, log zerolog.Logger) {
	for setting != "" && settle.Sleep(ctx, ruleEvery) == nil {
		if f, err := imports.ReadFeeding(ctx, q, 0); err == nil && f.Approvals.Rule == "" {
			if err := setRule(ctx, q, setting, worker, version, log, false); err != nil {
				log.Error().Err(err).Msg("the rule of ORDERPOST_APPROVALS cannot be stored; will retry")
			}
		}
	}
}

// setRule stores the rule. replaces says that it may take the place of another one.
func setRule(ctx context.Context, q *queue.Queue, setting, worker, version string, log zerolog.Logger, replaces bool) error {
	next, err := imports.ParseApprovalRule(setting)
	if err != nil {
		return fmt.Errorf("ORDERPOST_APPROVALS: %w", err)
	}
	f, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return err
	}
	before := f.Approvals.ReadRule()
	if before.String() == next.String() {
		return nil
	}
	host, _ := os.Hostname() // "" if the system has none
	about := journal.About{Kind: journal.Rule, Actor: journal.Actor{Name: worker + "@" + host, Known: journal.ByProcess},
		Details: map[string]string{"from": before.String(), "to": next.String()}}
	act, err := journal.New(q, "orderpost worker", version).Begin(ctx, journal.Intention{About: about})
	if err != nil {
		return err
	}
	err = imports.ChangeApprovals(ctx, q, func(all *imports.Approvals) (bool, error) {
		if all.Rule != "" && !replaces {
			return false, errors.New("another worker has set a rule")
		}
		all.Rule = next.String()
		return true, nil
	})
	if err == nil {
		log.Info().Stringer("from", &before).Stringer("to", &next).Msg("the fleet has another rule for approvals")
	}
	if end := act.End(ctx, result(nil, err)); end != nil {
		log.Error().Err(end).Msg("the journal lacks a part of an act")
	}
	return err
}
