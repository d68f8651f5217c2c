package powercut

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// producer publishes orders from outside of the traced process.
type producer struct {
	q    *queue.Queue
	link *nats.Conn
	js   jetstream.JetStream
}

func (r *recorder) newProducer(ctx context.Context) (*producer, error) {
	end, err := r.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.AckWait = end.URL, end.Token, "producer", ackWait
	p := &producer{}
	if p.q, err = queue.Open(ctx, cfg, zerolog.Nop()); err != nil {
		return nil, err
	}
	if p.link, err = nats.Connect(end.URL, nats.Token(end.Token), nats.MaxReconnects(-1), nats.Timeout(time.Minute)); err != nil {
		return nil, err
	}
	p.js, err = jetstream.New(p.link)
	return p, err
}

func (p *producer) close() {
	p.q.Close()
	p.link.Close()
}

// publish publishes orders in groups of one to six. Some can never be sent.
func (p *producer) publish(ctx context.Context, name string, n int) error {
	for made, group := 0, 1; made < n; group = group%6 + 1 {
		var intents []settle.Intent
		for range min(group, n-made) {
			no := fmt.Sprintf("%s-%04d", name, made)
			body := fmt.Sprintf(`{"order_no":%q,"timeout":60,"amount":"%d.00","note":%q}`, no, made, strings.Repeat("x", made*37%900))
			if made%25 == 24 {
				body = fmt.Sprintf(`{"order_no":%q}`, no) // timeout is missing: invalid
			}
			intents = append(intents, settle.Intent{OrderNo: no, ID: "powercut:" + no, Batch: "powercut", Body: []byte(body)})
			made++
		}
		for open := intents; len(open) > 0; {
			var again []settle.Intent
			for i, result := range p.q.PublishMany(ctx, open) {
				if errors.Is(result.Err, settle.ErrFull) {
					again = append(again, open[i])
				} else if result.Err != nil {
					return result.Err
				}
			}
			if open = again; len(open) > 0 {
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// settled waits until the work queue is empty.
func (p *producer) settled(ctx context.Context) error {
	for {
		s, err := p.js.Stream(ctx, "ORDERS")
		if err != nil {
			return err
		}
		if s.CachedInfo().State.Msgs == 0 {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d orders are not settled: %w", s.CachedInfo().State.Msgs, err)
		}
	}
}

// smallBlocks makes the next start of the broker use blocks of 32 kB, so that a short
// trace fills several of them. The worker sets the limits back.
func (p *producer) smallBlocks(ctx context.Context) error {
	for _, name := range []string{"ORDERS_RESULTS", "ORDERS_DEAD", "KV_ORDERPOST"} {
		s, err := p.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		cfg := s.CachedInfo().Config
		cfg.MaxBytes = 100_000
		if _, err := p.js.UpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
