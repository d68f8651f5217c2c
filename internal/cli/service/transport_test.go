package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"orderpost/internal/submit"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/http1"
)

// transport stands between the worker and the API.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// sender is a submit.Sender that sends requests through a test's transport. If that fails
// without having read the order, nothing was sent.
type sender struct {
	http.RoundTripper
	url     string
	timeout time.Duration
}

// through returns the sender of a worker with these settings; without a transport, none.
func through(rt http.RoundTripper, cfg submit.Config) submit.Sender {
	if rt == nil {
		return nil
	}
	return sender{rt, cfg.URL, cfg.RequestTimeout}
}

// Post implements submit.Sender.
func (s sender) Post(ctx context.Context, o http1.Order) http1.Exchange {
	body := &onceBody{text: bytes.NewReader(bytes.Clone(o.Body))}
	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/order/create", body)
	if err != nil {
		panic(err)
	}
	req.ContentLength = int64(len(o.Body))
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {o.Key}, "X-Signature": {o.Signature}}
	x := s.send(ctx, req)
	if begun := body.seal(); begun && x.Answer.Status == 0 {
		x.Phase = http1.PhaseSent
	}
	x.Answer.Examine(o.No)
	return x
}

// Get implements submit.Sender.
func (s sender) Get(ctx context.Context, key string) http1.Exchange {
	req, err := http.NewRequest(http.MethodGet, s.url+"/v1/account", nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Api-Key", key)
	return s.send(ctx, req)
}

// Look implements submit.Sender.
func (s sender) Look(ctx context.Context, key, orderNo, path string) http1.Exchange {
	req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Api-Key", key)
	x := s.send(ctx, req)
	x.Answer.Examine(orderNo)
	return x
}

func (s sender) send(ctx context.Context, req *http.Request) (x http1.Exchange) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	x.Sent = time.Now()
	defer func() { x.Ended = time.Now() }()
	resp, err := s.RoundTrip(req.WithContext(ctx))
	if err != nil {
		x.Err = err
		return x
	}
	defer resp.Body.Close()
	x.Answer = answer.Answer{Status: resp.StatusCode, Header: resp.Header}
	x.Answer.Body, x.Err = io.ReadAll(resp.Body)
	x.Phase, x.Answer.Complete = http1.PhaseDone, x.Err == nil
	return x
}

// onceBody is a body that cannot be read after seal. If nothing was read before, nothing
// was sent.
type onceBody struct {
	text  *bytes.Reader
	state atomic.Int32
}

const (
	bodyUnread int32 = iota
	bodyRead
	bodySealed
)

// Read implements io.Reader.
func (b *onceBody) Read(p []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyUnread, bodyRead) && b.state.Load() == bodySealed {
		return 0, errors.New("the request is over")
	}
	return b.text.Read(p)
}

// seal ends reading and reports whether anything was read.
func (b *onceBody) seal() (begun bool) { return b.state.Swap(bodySealed) == bodyRead }
