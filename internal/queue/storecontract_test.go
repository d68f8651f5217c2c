package queue

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/storecontract"
)

// TestJetStreamKeepsTheContract: so does the simulation's model (proof/simulation).
func TestJetStreamKeepsTheContract(t *testing.T) {
	storecontract.Test(t, storecontract.Promises(), func(t *testing.T, body func(*storecontract.Broker)) {
		body(contractBroker(t))
	})
}

// TestReplicasKeepTheContract: batched reads go to a follower that is cut off from the
// leader, while other requests go to the leader.
func TestReplicasKeepTheContract(t *testing.T) {
	storecontract.Test(t, storecontract.Replicas(), func(t *testing.T, body func(*storecontract.Broker)) {
		r, leader, follower, node, at := splitCluster(t)
		b := brokerOf(t, leader)
		b.Store = &twoNodes{Store: jetStore{leader}, batched: jetStore{follower}}
		b.Lag = func() {
			r.isolate(at)
			require.Eventually(t, func() bool { return node.NumRoutes() == 0 }, 20*time.Second, time.Millisecond)
		}
		b.CatchUp = r.heal
		body(b)
	})
}

// contractBroker opens a queue at a broker of its own.
func contractBroker(t *testing.T) *storecontract.Broker {
	t.Helper()
	cut := &netcut.Dialer{}
	s, restart := serverOfChoice(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living, cfg.AckWait = s.URL, s.Token, "contract", true, living, 2*time.Second
	q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.SetCustomDialer(cut))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	b, by := brokerOf(t, q), openQueue(t, s, "operator", func(c *Config) { c.Worker = false })
	b.Cut = cut.Kill
	b.Restart = restart
	// A stream at its MaxBytes would still replace a message by one that is no longer.
	limit := func(size int32) {
		for _, name := range []string{q.Conn.n.results, q.Conn.n.dead, q.bucket.stream()} {
			stream, err := by.Conn.js.Stream(t.Context(), name)
			require.NoError(t, err)
			cfg := stream.CachedInfo().Config
			cfg.MaxMsgSize = size
			_, err = by.Conn.js.UpdateStream(t.Context(), cfg)
			require.NoError(t, err)
		}
	}
	b.Fill, b.MakeRoom = func() { limit(1) }, func() { limit(-1) }
	return b
}

// brokerOf returns what a queue can do with its broker.
func brokerOf(t *testing.T, q *Queue) *storecontract.Broker {
	return &storecontract.Broker{
		Store:   q.store,
		Subject: func(no string) string { return q.Conn.n.newPre + no },
		Wait: func(no, id string) uint64 {
			status, seq, err := q.store.PublishIntent(t.Context(), q.Producer.IntentMessage(settle.Intent{OrderNo: no, Body: body(no), ID: id, Lane: "bulk", Batch: "b"}))
			require.NoError(t, err)
			require.Equal(t, settle.Stored, status)
			return seq
		},
		Pull: func(n int, wait time.Duration) (got []settle.Arrival) {
			p, err := q.startPull(n, wait)
			require.NoError(t, err)
			defer p.end()
			for msg := p.next(); msg != nil; msg = p.next() {
				got = append(got, q.arrival(msg))
			}
			require.NoError(t, p.err)
			return got
		},
		AckWait: q.Conn.cfg.AckWait,
		Now:     time.Now,
		Soon: func(holds func() bool) bool {
			for since := time.Now(); time.Since(since) < time.Minute; {
				if holds() {
					return true
				}
				_ = settle.Sleep(t.Context(), time.Millisecond)
			}
			return false
		},
	}
}

// stale answers every read of a record from the past: as it was when the first read
// found it.
type stale struct {
	settle.Store
	was map[string]settle.Entry
}

func (s stale) Record(ctx context.Context, token string) (settle.Entry, error) {
	if e, read := s.was[token]; read {
		return e, nil
	}
	e, err := s.Store.Record(ctx, token)
	if e.Record != nil {
		s.was[token] = e
	}
	return e, err
}

// unconditional writes records whatever was expected.
type unconditional struct{ settle.Store }

func (s unconditional) PutRecord(ctx context.Context, token string, r *order.Record, _ uint64) (uint64, error) {
	e, err := s.Record(ctx, token)
	if err != nil {
		return 0, err
	}
	return s.Store.PutRecord(ctx, token, r, e.Seq)
}

// anyToken reads and removes letters by their sequences alone.
type anyToken struct{ settle.Store }

func (s anyToken) DeleteLetter(ctx context.Context, token string, seq uint64) error {
	refs, err := s.LettersFrom(ctx, seq, 1)
	if err != nil || len(refs) == 0 || refs[0].Seq != seq {
		return err
	}
	return s.Store.DeleteLetter(ctx, refs[0].Token, seq)
}

// oneEach keeps one letter for each token.
type oneEach struct{ settle.Store }

func (s oneEach) PutLetter(ctx context.Context, token string, l *settle.Letter) (uint64, error) {
	refs, err := s.LettersFrom(ctx, 1, 10)
	for _, ref := range refs {
		if ref.Token == token {
			err = s.DeleteLetter(ctx, token, ref.Seq)
		}
	}
	if err != nil {
		return 0, err
	}
	return s.Store.PutLetter(ctx, token, l)
}

// TestTheContractNoticesDifferences: a store that differs from JetStream in one thing
// breaks the promise about that thing, which JetStream keeps.
func TestTheContractNoticesDifferences(t *testing.T) {
	differs := map[string]func(settle.Store) settle.Store{
		"a record is read as it was last written":         func(s settle.Store) settle.Store { return stale{s, make(map[string]settle.Entry)} },
		"a record is written only on the expected one":    func(s settle.Store) settle.Store { return unconditional{s} },
		"a letter is removed, and no other":               func(s settle.Store) settle.Store { return anyToken{s} },
		"letters of one order_no stay beside one another": func(s settle.Store) settle.Store { return oneEach{s} },
	}
	for _, p := range storecontract.Promises() {
		if differ := differs[p.Name]; differ != nil {
			delete(differs, p.Name)
			t.Run(p.Name, func(t *testing.T) {
				require.False(t, p.Broken(contractBroker(t)))
				b := contractBroker(t)
				b.Store = differ(b.Store)
				require.True(t, p.Broken(b))
			})
		}
	}
	require.Empty(t, differs, "no promise is called so")
}
