package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"orderpost/internal/submit/gate"
)

// prober shares the gate's blocks that concern the whole fleet: the breaker and
// denied credentials. The first worker that shuts its gate records an incident and
// probes. The others hold their gates without asking the API. If the probing
// worker is gone, another one takes its place.
type prober struct {
	m *Member
	// following are the reasons for which the gate is shut while another worker
	// probes, by block.
	standby map[string]string
	// own are this worker's blocks as of the last round, see changed.
	own map[string]bool
}

func newProber(m *Member) *prober {
	return &prober{m: m, standby: make(map[string]string), own: make(map[string]bool)}
}

// changed says whether a shared block of ours came or went since the last round.
func (p *prober) changed() bool {
	return slices.ContainsFunc(gate.SharedBlocks(), func(name string) bool { return p.stands(name) != p.own[name] })
}

// stands says whether our own gate is shut by the block.
func (p *prober) stands(name string) bool { return p.reason(name) != "" }

func (p *prober) reason(name string) string {
	for _, b := range p.m.Gate.State().Blocks {
		if b.Name == name {
			return b.Reason
		}
	}
	return ""
}

// obey compares each shared block with what the bucket says of it.
func (p *prober) obey(ctx context.Context, view *View) error {
	var errs []error
	for _, name := range gate.SharedBlocks() {
		p.own[name] = p.stands(name)
		errs = append(errs, p.compare(ctx, name, view.Incidents[name]))
	}
	return errors.Join(errs...)
}

func (p *prober) compare(ctx context.Context, name string, recorded *Incident) error {
	mine := Incident{Owner: p.m.membership.id, Worker: p.m.Name, Reason: p.reason(name), Since: time.Now().UTC()}
	if name == gate.BlockCredentials {
		mine.Mark = p.m.KeyMark()
	}
	switch {
	case recorded == nil || recorded.Mark != mine.Mark: // there is none, or it is about another key
		p.goOn(name)
		if recorded == nil && mine.Reason != "" {
			return ignoreOtherFirst(p.m.Control.recordIncident(ctx, name, mine, 0))
		}
	case recorded.Owner == p.m.membership.id:
		return p.probe(ctx, name, recorded, mine.Reason == "")
	case slices.Contains(p.m.others, recorded.Owner):
		p.standBy(name, recorded)
	default:
		return p.becomeProber(ctx, name, recorded, mine)
	}
	return nil
}

// probe is the round of the worker that probes: the incident is over once its own
// block is gone.
func (p *prober) probe(ctx context.Context, name string, recorded *Incident, over bool) error {
	switch {
	case p.standby[name] != "": // becomeProber did not hear that it succeeded
		p.m.Gate.ShutAndProbe(name, recorded.Reason)
		p.endStandby(name)
	case over:
		return ignoreOtherFirst(p.m.Control.endIncident(ctx, name, recorded.Revision))
	default:
		p.m.Gate.ResumeProbe(name)
	}
	return nil
}

// follow stops this worker while another one probes.
func (p *prober) standBy(name string, recorded *Incident) {
	text := fmt.Sprintf("%s of worker %s, which asks the API for all: %s", name, recorded.Worker, recorded.Reason)
	if p.standby[name] != text {
		p.m.Gate.ShutRemote(name, text)
		p.standby[name] = text
	}
	p.m.Gate.DeferProbe(name)
}

func (p *prober) endStandby(name string) {
	if p.standby[name] != "" {
		p.m.Gate.LiftRemote(name)
		delete(p.standby, name)
	}
}

// goOn lets this worker send after the probing worker found the incident over.
func (p *prober) goOn(name string) {
	if p.standby[name] != "" {
		p.m.Gate.RemoteRecovered(name)
		p.endStandby(name)
		p.own[name] = p.stands(name)
	}
}

// becomeProber puts this worker in the place of the probing worker that is gone.
func (p *prober) becomeProber(ctx context.Context, name string, recorded *Incident, mine Incident) error {
	mine.Reason = recorded.Reason
	if err := p.m.Control.recordIncident(ctx, name, mine, recorded.Revision); err != nil {
		return ignoreOtherFirst(err)
	}
	p.m.Gate.ShutAndProbe(name, recorded.Reason)
	p.endStandby(name)
	return nil
}

// ignoreOtherFirst: the next round sees what the other worker wrote.
func ignoreOtherFirst(err error) error {
	if errors.Is(err, errOtherFirst) {
		return nil
	}
	return err
}
