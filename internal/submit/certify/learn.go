package certify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/http1"
)

// Config says what to ask, and how.
type Config struct {
	API  submit.Config
	Pair submit.KeyPair
	// Order is the body of an order that the API should accept. Its order_no is replaced.
	Order []byte
	// OrderNo makes the numbers: {n} stands for 1, 2 and so on.
	OrderNo string
	// Burst is how many orders are sent at once at the end, until the API throttles; 0 = none.
	Burst int
	// Pause is the time between two requests. A longer one keeps a low rate limit out of the other answers.
	Pause time.Duration
	// Idle are the times for which connections are left unused, shortest first.
	Idle []time.Duration
	// Created is asked whether the first order exists, if its answer does not say so.
	Created func(orderNo, answer string) bool
	// Lookup asks whether an order exists, as LookupRequest says; nil = nobody said how.
	Lookup        *answer.Lookup
	LookupRequest string
	// Tell receives a line before each step; nil = nobody.
	Tell func(line string)
}

// beforeBurst counts the requests of ask before the burst: three orders that should succeed, three repetitions of the first,
// one that is cut and sent again, the timestamps, and three that the API should refuse.
const beforeBurst = 3 + 3 + 2 + 6 + 3

// Orders is the most orders that Learn can create, at an API that takes whatever it gets.
func (c *Config) Orders() int {
	n := beforeBurst + c.Burst + min(c.Burst, 1)
	if c.Lookup != nil {
		n++
	}
	return n
}

var offsets = []time.Duration{-time.Minute, time.Minute, -10 * time.Minute, 10 * time.Minute, -2 * time.Hour, 2 * time.Hour}

// seen is one request with its answer.
type seen struct {
	what  string
	no    string
	sent  *http1.Order
	x     http1.Exchange
	shift time.Duration // of its timestamp
}

func (s *seen) answer() *answer.Answer { return &s.x.Answer }

// judgement is what a worker without rules makes of the answer.
func (s *seen) judgement() answer.Judgement { return (&answer.Judge{}).Judgement(s.answer(), 1) }

// said is what distinguishes the answer from those of other kinds: status, members, codes, and how messages begin.
func (s *seen) said() string {
	text := fmt.Sprint(s.x.Phase, s.answer().Status, keys(s.answer()))
	for _, m := range members(s.answer()) {
		switch {
		case m.isCode():
			text += "\n" + m.path + " " + m.text
		case strings.Contains(m.str, " "): // an id has none
			text += "\n" + m.path + " " + beginning(m.str, s.no)
		}
	}
	if !json.Valid(s.answer().Body) {
		text += "\n" + beginning(string(s.answer().Body), s.no)
	}
	return text
}

// learner holds the answers. Those that were not asked for are nil.
type learner struct {
	Config
	client  *http1.Client
	fields  map[string]json.RawMessage
	numbers []string
	stamp   int64 // the last timestamp, without its shift
	all     []*seen

	account, first, second, control      *seen
	replay, repeat, otherBody, afterCut  *seen
	badSignature, unknownKey, incomplete *seen
	times                                []*seen
	throttled                            *seen
	cut                                  error
	burstSent                            int // before the first throttle
	burstTook                            time.Duration
	throttleWait                         time.Duration
	throttleProven                       bool                   // the throttled order was created later, by an API that refuses a repeated number
	clock                                time.Duration          // how far the API's clock is ahead
	idle                                 map[time.Duration]bool // whether a connection was still open
	looks                                lookups
	window                               time.Duration // the furthest timestamp that was taken
}

// ErrNothingLearnt is returned if the first order was not created. The findings have its answer.
var ErrNothingLearnt = errors.New("the first order was not created, so nothing else can be learnt")

// Learn sends the requests and returns what they showed. It must be a test API: orders are created.
func Learn(ctx context.Context, cfg Config) (*Findings, error) {
	l := &learner{Config: cfg}
	if err := json.Unmarshal(cfg.Order, &l.fields); err != nil || l.fields == nil {
		return nil, fmt.Errorf("the order is no JSON object: %w", cmp.Or(err, errors.New("it is null")))
	}
	var err error
	if l.client, err = cfg.API.Client(); err != nil {
		return nil, err
	}
	defer l.client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var idle sync.WaitGroup
	idle.Go(func() { l.idle = l.leaveIdle(ctx) })
	if err := l.ask(ctx); err != nil {
		cancel()
		idle.Wait()
		return &Findings{Orders: l.numbers, Answers: l.all, policy: order.Park, shown: l.shown}, err
	}
	if len(cfg.Idle) > 0 {
		l.tell("waiting for connections that are left unused (%s)", cfg.Idle[len(cfg.Idle)-1])
	}
	idle.Wait()
	return l.conclude(), ctx.Err()
}

func (l *learner) tell(format string, args ...any) {
	if l.Tell != nil {
		l.Tell(fmt.Sprintf(format, args...))
	}
}

// try is one request of ask.
type try struct {
	what    string
	no      string       // of an order that was sent before; "" = it is a new one
	sent    *http1.Order // a request that was sent before; nil = it is a new one
	changed map[string]json.RawMessage
	shift   time.Duration
	edit    func(*http1.Order) // of what is sent; nil = nothing
	to      **seen
}

// tries lists the requests. The second order comes before the repetition of the first: a time in an answer that is the
// first one's again cannot be the present one.
func (l *learner) tries() []try {
	all := []try{
		{what: "another order", to: &l.second},
		{what: "the same request again", no: l.first.no, sent: l.first.sent, to: &l.replay},
		{what: "the same order with a fresh timestamp", no: l.first.no, to: &l.repeat},
	}
	if timeout, err := strconv.ParseInt(string(l.fields[order.FieldTimeout]), 10, 64); err == nil {
		other := map[string]json.RawMessage{order.FieldTimeout: strconv.AppendInt(nil, timeout+1, 10)}
		all = append(all, try{what: "another timeout under the same number", no: l.first.no, changed: other, to: &l.otherBody})
	}
	all = append(all, []try{
		{what: "a further order", to: &l.control},
		{what: "a wrong signature", edit: func(o *http1.Order) { o.Signature = wrong(o.Signature) }, to: &l.badSignature},
		{what: "an unknown key", edit: func(o *http1.Order) { o.Key = wrong(o.Key) }, to: &l.unknownKey},
		{what: "an order without timeout", changed: map[string]json.RawMessage{order.FieldTimeout: nil}, to: &l.incomplete},
	}...)
	l.times = make([]*seen, len(offsets))
	for i, shift := range offsets {
		all = append(all, try{what: fmt.Sprintf("a timestamp that is %s off", shift), shift: shift, to: &l.times[i]})
	}
	return all
}

func (l *learner) ask(ctx context.Context) error {
	l.account = &seen{what: "GET /v1/account", x: l.client.Get(ctx, l.Pair.Key)}
	if l.account.x.Phase != http1.PhaseDone {
		return fmt.Errorf("%s: %s", l.account.what, l.shown(l.account))
	}
	l.clockOf(l.account)
	if err := l.try(ctx, try{what: "an order that should succeed", to: &l.first}); err != nil {
		return err
	}
	if err := l.mustBeCreated(); err != nil {
		return err
	}
	for _, t := range l.tries() {
		if err := l.try(ctx, t); err != nil {
			return err
		}
	}
	if err := l.cutOff(ctx); err != nil {
		return err
	}
	if err := l.lookUp(ctx); err != nil {
		return err
	}
	return l.burst(ctx)
}

// try sends one request.
func (l *learner) try(ctx context.Context, t try) (err error) {
	s := &seen{what: t.what, no: t.no, sent: t.sent, shift: t.shift}
	if s.no == "" {
		s.no = l.number()
	}
	if s.sent == nil {
		if s.sent, err = l.signed(s.no, t.changed, t.shift); err != nil {
			return err
		}
	}
	if t.edit != nil {
		t.edit(s.sent)
	}
	*t.to = s
	return l.send(ctx, s)
}

// wrong changes the first character of a text.
func wrong(text string) string {
	if text[0] == '0' {
		return "1" + text[1:]
	}
	return "0" + text[1:]
}

func (l *learner) mustBeCreated() error {
	a := l.first.answer()
	if l.first.judgement().Verdict == order.Accepted {
		return nil
	}
	if l.first.x.Phase != http1.PhaseDone || a.Status >= 300 || !l.Created(l.first.no, l.shown(l.first)) {
		return ErrNothingLearnt
	}
	return nil
}

// clockOf compares the API's Date with this machine's clock, to the second.
func (l *learner) clockOf(s *seen) {
	if at, err := time.Parse(time.RFC1123, s.answer().Header.Get("Date")); err == nil {
		if ahead := at.Sub(s.x.Ended); ahead > time.Second || ahead < -2*time.Second {
			l.clock = ahead.Round(time.Second)
		}
	}
}

// number returns the next order number.
func (l *learner) number() string {
	no := strings.ReplaceAll(l.OrderNo, "{n}", strconv.Itoa(len(l.numbers)+1))
	l.numbers = append(l.numbers, no)
	return no
}

// signed returns a signed order. Of the changed fields, nil removes one.
func (l *learner) signed(no string, changed map[string]json.RawMessage, shift time.Duration) (*http1.Order, error) {
	fields := maps.Clone(l.fields)
	maps.Copy(fields, changed)
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return value == nil })
	fields[order.FieldOrderNo], _ = json.Marshal(no) // a string
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	o, err := order.Canonicalize(text)
	if err != nil {
		return nil, err
	}
	l.stamp = max(l.stamp+1, time.Now().Add(l.clock).UnixMilli()) // no two are the same: that would be a replay
	body, signature, err := l.Pair.Signer.Sign(nil, o, l.stamp+shift.Milliseconds())
	return &http1.Order{No: no, Body: body, Key: l.Pair.Key, Signature: signature}, err
}

// maxThrottles is how often a request is sent again that the API throttled.
const maxThrottles = 5

// send sends a request. One that the API throttles is sent again later.
func (l *learner) send(ctx context.Context, s *seen) error {
	l.tell("%s (%s)", s.what, s.no)
	for range maxThrottles {
		if err := settle.Sleep(ctx, l.Pause); err != nil {
			return err
		}
		s.x = l.client.Post(ctx, *s.sent)
		if !s.judgement().Throttle {
			break
		}
		l.tell("%s", "the API throttles; waiting")
		if err := settle.Sleep(ctx, cmp.Or(answer.RetryAfter(s.answer().Header, time.Now()), 2*time.Second)); err != nil {
			return err
		}
	}
	l.all = append(l.all, s)
	return ctx.Err()
}

// cutOff sends an order, closes the connection, and sends the order again.
func (l *learner) cutOff(ctx context.Context) (err error) {
	no := l.number()
	sent, err := l.signed(no, nil, 0)
	if err != nil {
		return err
	}
	l.tell("an order whose connection is cut (%s)", no)
	if l.cut = l.client.Abandon(ctx, *sent); l.cut != nil {
		return nil
	}
	if err := settle.Sleep(ctx, max(l.Pause, 100*time.Millisecond)); err != nil {
		return err
	}
	return l.try(ctx, try{what: "the order again whose connection was cut", no: no, to: &l.afterCut})
}

// burstAtOnce is how many orders of a burst are under way at once.
const burstAtOnce = 8

// burst sends orders until one is answered in another way than orders that succeed, and then that one again.
func (l *learner) burst(ctx context.Context) error {
	if l.Burst == 0 {
		return nil
	}
	l.tell("%d orders at once", l.Burst)
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(burstAtOnce)
	var mu sync.Mutex
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return l.throttled != nil
	}
	for n := 0; n < l.Burst && !done(); n++ {
		no := l.number()
		sent, err := l.signed(no, nil, 0)
		if err != nil {
			return err
		}
		all.Go(func() error {
			s := &seen{what: "an order of a burst", no: no, sent: sent, x: l.client.Post(ctx, *sent)}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case l.throttled == nil && s.x.Phase == http1.PhaseDone && s.said() != l.first.said():
				l.throttled, l.burstTook = s, time.Since(began)
			case l.throttled == nil:
				l.burstSent++
			}
			return nil
		})
	}
	if err := cmp.Or(all.Wait(), ctx.Err()); err != nil || l.throttled == nil {
		return err
	}
	l.all = append(l.all, l.throttled)
	l.throttleWait = cmp.Or(answer.RetryAfter(l.throttled.answer().Header, time.Now()), time.Second)
	if err := settle.Sleep(ctx, l.throttleWait); err != nil {
		return err
	}
	var again *seen
	err := l.try(ctx, try{what: "that order again", no: l.throttled.no, to: &again})
	l.throttleProven = err == nil && l.created(again) && l.refused(l.repeat)
	return err
}

// leaveIdle opens a connection for each time, and looks whether it is still open after it.
func (l *learner) leaveIdle(ctx context.Context) map[time.Duration]bool {
	var mu sync.Mutex
	var all sync.WaitGroup
	open := make(map[time.Duration]bool)
	for _, d := range l.Idle {
		all.Go(func() {
			cfg := l.API
			cfg.IdleTimeout = d + time.Minute // however late this process wakes, the API closes the connection
			client, err := cfg.Client()
			if err != nil {
				return
			}
			defer client.Close()
			if x := client.Get(ctx, l.Pair.Key); x.Phase != http1.PhaseDone || settle.Sleep(ctx, d) != nil {
				return
			}
			x := client.Get(ctx, l.Pair.Key)
			mu.Lock()
			defer mu.Unlock()
			open[d] = x.Phase == http1.PhaseDone && x.Reused
		})
	}
	all.Wait()
	return open
}
