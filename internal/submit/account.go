package submit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

var (
	// ErrDenied is returned by Preflight when the API refuses every API key.
	ErrDenied = errors.New("the API key is denied")
	// ErrUnreachable is returned by Preflight when the API does not answer, or
	// something answers that is not the API.
	ErrUnreachable = errors.New("the API is not reached")
)

// accountState is the result of GET /v1/account.
type accountState uint8

const (
	accountOK       accountState = iota
	accountDenied                // the API refuses the key
	accountDown                  // no answer, or an answer that asks to try later
	accountNotFound              // an answer that is not the account's: probably a wrong URL
)

// askAccount asks for the account with a pair's key. The text says what came back.
func (s *Submitter) askAccount(ctx context.Context, p *pairState) (accountState, string) {
	x := s.sender.Get(ctx, p.Key)
	x.Answer.Scrub = s.keys.scrub.Load()
	if x.Answer.Status == 0 {
		detail := x.Reason() + x.Detail()
		if x.Detail() == "" {
			detail += fmt.Sprintf(" (%v)", x.Err)
		}
		return accountDown, s.clean(detail)
	}
	s.clock.observe(&x.Answer, x.Sent, x.Ended, false)
	status := x.Answer.Status
	detail := fmt.Sprintf("GET %s answered %d%s", accountPath, status, serverOf(&x))
	if status >= http.StatusBadRequest && len(x.Answer.Body) > 0 {
		detail += ": " + x.Answer.Shown()
	}
	detail = s.clean(detail)
	j := s.judge.Rules.Judge(&x.Answer, 1)
	switch {
	case j.Verdict == order.Denied:
		return accountDenied, detail
	case status == http.StatusTooManyRequests || j.Throttle:
		s.gate.Throttle(s.capRetryAfter(answer.RetryAfter(x.Answer.Header, x.Ended)), x.Sent)
		return accountDown, detail
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusProxyAuthRequired:
		return accountDown, detail
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status < 200, status >= 300 && status < 400:
		return accountNotFound, detail
	default:
		return accountOK, detail
	}
}

// Preflight asks for the account before the first order. The first pair whose key
// the API accepts becomes the active one. If the answer says that the clock is wrong,
// Preflight asks once more, because one answer alone moves no timestamp. The error wraps
// [ErrDenied] or [ErrUnreachable], or is the context's cause.
func (s *Submitter) Preflight(ctx context.Context) error {
	for {
		p := s.keys.use()
		state, detail := s.askAccount(ctx, p)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		switch state {
		case accountOK:
			if s.clock.contradicted() {
				s.askAccount(ctx, p)
			}
			s.log.Debug().Stringer("key", p.KeyPair).Msg("API key works")
			return nil
		case accountDown:
			return fmt.Errorf("%w at %s: %s", ErrUnreachable, s.base, detail)
		case accountNotFound:
			return fmt.Errorf("%w at %s: %s: is ORDERPOST_API_URL right?", ErrUnreachable, s.base, detail)
		}
		s.log.Warn().Stringer("key", p.KeyPair).Str("detail", detail).Msg("API key denied")
		if _, none := s.keys.markBad(p); none {
			s.keys.retryAll()
			return fmt.Errorf("%w: %s", ErrDenied, detail)
		}
	}
}

// denied shuts the gate because the API denied a pair. proven says that the
// request for the account or the order on trial was denied. The pair is then bad,
// and denied switches to the next one. Otherwise the worker asks for the account
// first, because the order itself may be at fault.
func (s *Submitter) denied(p *pairState, proven bool, detail string) {
	if s.keys.use() != p {
		return // another pair is in use already
	}
	if !proven {
		s.gate.KeySuspected(fmt.Sprintf("API key %s was denied (%s): asking the account", mask(p.Key), detail))
		return
	}
	next, none := s.keys.markBad(p)
	if none {
		s.gate.AllKeysDenied(fmt.Sprintf("every API key is denied, the last one was %s (%s): put right %s", mask(p.Key), detail, s.keys.where()))
		return
	}
	s.gate.KeyDenied(fmt.Sprintf("API key %s is denied (%s): trying key %s", mask(p.Key), detail, mask(next.Key)))
}

// probe asks for the account on behalf of the blocks in the stage probe.
func (s *Submitter) probe(ctx context.Context) {
	s.keys.reload()
	s.keys.retryAll()
	p := s.keys.use()
	state, detail := s.askAccount(ctx, p)
	s.log.Debug().Stringer("key", p.KeyPair).Str("detail", detail).Msg("account probed")
	if state == accountDenied {
		s.denied(p, true, detail)
	}
	s.gate.ClockLooked(s.clock.looked())
	s.gate.Probed(state != accountDown, detail)
}
