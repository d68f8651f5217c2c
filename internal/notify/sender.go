package notify

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/platform/livefile"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// lookEvery is how often a process that does not send looks whether it may.
const lookEvery = 500 * time.Millisecond

// Options are what a sender needs.
type Options struct {
	Config Config
	Queue  *queue.Queue
	// Name is this process's, for people.
	Name string
	// Version is the program's, for people.
	Version string
	Log     zerolog.Logger
}

// Sender tells the receiver the outcomes while it holds the lease. One of all senders of a
// fleet does.
type Sender struct {
	queue  *queue.Queue
	log    zerolog.Logger
	client *client
	filter *filter
	lease  *fleet.Lease
	kept   Kept // what the lease keeps
	oldest bool
	pace   pace
	stats  counters
	door   fleet.Door // what stays the same of it

	mu      sync.Mutex
	problem string
}

// NewSender returns a sender. An error names the setting that cannot be used.
func NewSender(o Options) (*Sender, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	keys, err := newSecrets(o.Config)
	if err != nil {
		return nil, err
	}
	s := &Sender{queue: o.Queue, log: o.Log, filter: newFilter(o.Config), oldest: o.Config.Begin == beginOldest, pace: pace{look: alertsEvery, after: blockedAfter, gap: alertGap},
		door: fleet.Door{Kind: fleet.DoorNotify, Name: o.Name, Since: time.Now().UTC(), Version: o.Version}}
	s.lease = fleet.NewLease(o.Queue.Bucket(), senderKey, o.Name, &s.kept, s.adopt)
	s.client = newClient(o.Config, keys, func(err error) {
		s.log.Warn().Err(err).Msg("the secret for webhooks cannot be read again; the former one stays in use")
	})
	if o.Config.TLSCert != "" {
		cert, err := livefile.OpenCertificate("ORDERPOST_NOTIFY_TLS_CERT_FILE", o.Config.TLSCert, o.Config.TLSKey, o.Log)
		if err != nil {
			return nil, err
		}
		s.client.transport.TLSClientConfig.GetClientCertificate = cert.ForServer
	}
	return s, nil
}

// Run sends until ctx ends. Then another process may send at once.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.close()
	var shown sync.WaitGroup
	shown.Go(func() { fleet.New(s.queue).ShowDoor(ctx, s.log, s.describe) })
	defer shown.Wait()
	defer func() {
		if err := s.lease.Leave(); err != nil {
			s.log.Debug().Err(err).Msg("another process sends outcomes in a few seconds")
		}
	}()
	for ctx.Err() == nil {
		sends, err := s.lead(ctx)
		if ctx.Err() != nil {
			return
		}
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		s.tell(problem)
		if !sends || err != nil {
			_ = settle.Sleep(ctx, lookEvery)
		}
	}
}

// describe returns what people are shown of this process.
func (s *Sender) describe() fleet.Door {
	d, n := s.door, s.Stats()
	d.Done, d.Sends, d.Backlog = n.Attempts[classes[2]], n.Sends, n.Backlog
	if now := s.stats.session.Load(); now != nil {
		d.Problem = now.receiver.trouble()
	}
	return d
}

// lead sends for as long as this process may. It returns false if another one does.
func (s *Sender) lead(ctx context.Context) (bool, error) {
	held, err := s.lease.Keep(ctx)
	if err != nil || !held {
		return false, err
	}
	now, err := s.newSession(ctx)
	if err != nil {
		return true, err
	}
	s.log.Info().Uint64("position", s.kept.Position.Seq).Msg("this process sends outcomes to the receiver")
	s.stats.session.Store(now)
	defer s.stats.session.Store(nil)
	return true, now.run(ctx)
}

// receives logs when the receiver begins to take nothing, and when it takes events again.
func (s *Sender) receives(problem string) {
	if problem == "" {
		s.log.Info().Msg("the receiver takes outcomes again")
		return
	}
	s.log.Warn().Str("problem", problem).Msg("the receiver takes no outcomes; they stay in the results, and are sent when it is back")
}

// tell logs a problem once, and its end.
func (s *Sender) tell(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch problem {
	case s.problem:
		return
	case "":
		s.log.Info().Msg("outcomes are sent again")
	default:
		s.log.Warn().Str("problem", problem).Msg("outcomes are not sent at the moment; will retry")
	}
	s.problem = problem
}
