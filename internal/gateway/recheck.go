package gateway

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/gateway/door"
)

// recheckEvery is how often the requests under way are held against the file of clients.
const recheckEvery = 5 * time.Second

// recheckAll ends every now and then the requests whose clients may not have their answers any more,
// until the door closes.
func (s *Server) recheckAll() {
	ticker := time.NewTicker(s.recheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.drain.Done():
			return
		case <-ticker.C:
			s.underWay.Range(func(c, end any) bool {
				if p := c.(*call).recheck(); p != nil {
					end.(context.CancelCauseFunc)(p)
				}
				return true
			})
		}
	}
}

// watched has the request end when its client may not have the answer any more.
func (c *call) watched() {
	if c.s.clients == nil {
		return
	}
	ctx, end := context.WithCancelCause(c.Context())
	c.Request = c.WithContext(ctx)
	c.s.underWay.Store(c, end)
}

// recheck returns why the client may not have the answer to its request any more; nil = it may.
// Every answer that took longer than a look-up needs it before it tells anything.
func (c *call) recheck() *problem {
	if c.s.clients == nil {
		return nil
	}
	if p := c.revoked(); p != nil {
		return p
	}
	now := c.s.clients.again(c.client)
	switch {
	case now == nil || now.name != c.client.name:
		return problemOf(unauthorized, "client "+c.client.name, "the file of clients has its token or certificate no more", "send the request with its new token")
	case !c.certified.IsZero() && time.Now().After(c.certified):
		return problemOf(unauthorized, "certificate", "it ended while the request was under way", "send the request with a new certificate")
	case !now.may(c.need):
		return lacksScope(now, c.need)
	case c.client.may(ReadAll) && !now.may(ReadAll) && c.need == Read:
		p := lacksScope(now, ReadAll)
		p.Do = "send the request again: it is answered with the outcomes of the client's own orders"
		p.Detail = door.Sentence(p.Where, p.Seen, p.Do)
		return p
	}
	return nil
}

// revoked returns why the request was ended while it was under way; nil = it was not, or it was
// for another reason.
func (c *call) revoked() (p *problem) {
	if !errors.As(context.Cause(c.Context()), &p) {
		return nil
	}
	return p
}

// bodyEnds has reads of the body fail once the client may not go on with its request.
func (c *call) bodyEnds() (stop func() bool) {
	return context.AfterFunc(c.Context(), func() {
		if c.revoked() != nil {
			_ = c.control.SetReadDeadline(time.Now())
		}
	})
}
