package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// mutableKeys is a KeySource that changes.
type mutableKeys struct {
	mu    sync.Mutex
	pairs []KeyPair
	err   error
}

func (m *mutableKeys) Pairs() ([]KeyPair, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pairs, m.err
}

func (m *mutableKeys) set(err error, pairs ...KeyPair) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pairs, m.err = pairs, err
}

func pair(key string) KeyPair { return KeyPair{Key: key, Signer: &stubSigner{key}} }

// keyAPI denies by key, and by signature (a wrong secret).
type keyAPI struct {
	mu          sync.Mutex
	deniedKeys  map[string]bool
	deniedSigns map[string]bool
	deniedOrder map[string]bool
}

func (a *keyAPI) order(c call) reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deniedKeys[c.key] || a.deniedSigns[c.key] || a.deniedOrder[c.orderNo] {
		return reply{status: 401, body: `{"message":"denied"}`, after: 50 * time.Millisecond}
	}
	return reply{after: 50 * time.Millisecond}
}

func (a *keyAPI) account(c call) reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deniedKeys[c.key] {
		return reply{status: 401}
	}
	return reply{}
}

func (a *keyAPI) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func newKeyRig(t *testing.T, a *keyAPI, keys KeySource, change func(*Config)) *rig {
	return newRigWith(t, &fakeAPI{handle: a.order, account: a.account}, keys, change)
}

func TestFirstDenialStopsNewAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedKeys: map[string]bool{keyA: true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA)}, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
		defer cancel()
		require.Equal(t, map[order.End]int{order.EndHandBack: 64}, ends(r.many("n", 64)), "nothing is settled")
		require.Error(t, r.Gate().Wait(ctx), "the gate stays shut")
		posts, gets := r.api.calls()
		require.Equal(t, 1, posts, "one order was denied, and no other one sent")
		require.LessOrEqual(t, gets, 15, "the probes back off: 1, 2, 4, … s, 5 min")
		require.Contains(t, r.Gate().State().Reasons[0], mask(keyA))
		require.NotContains(t, r.log.String(), keyA)
	})
}

func TestGateOpensByItselfOnceTheKeyWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedKeys: map[string]bool{keyA: true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA)}, nil)
		require.Equal(t, map[order.End]int{order.EndHandBack: 64}, ends(r.many("n", 64)))
		require.False(t, r.Gate().Open())
		a.change(func() { a.deniedKeys = nil })
		require.NoError(t, r.Gate().Wait(context.Background()))
		reports := r.many("n", 64)
		require.Equal(t, map[order.End]int{order.EndAnswer: 64}, ends(reports))
		require.True(t, r.Gate().State().Open)
		at := r.api.times()
		require.GreaterOrEqual(t, at[2].Sub(at[1]), 50*time.Millisecond, "one order first")
	})
}

// A wrong secret: the account answers, every signed order is denied.
func TestWrongSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedSigns: map[string]bool{keyA: true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA)}, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		for n := 0; r.Gate().Wait(ctx) == nil; n++ {
			require.NotContains(t, ends(r.many(fmt.Sprint(n), r.Gate().Capacity())), order.EndAnswer)
		}
		posts, _ := r.api.calls()
		require.Less(t, posts, 15, "60 failures in a minute get one banned")
		require.Contains(t, r.Gate().State().Reasons[0], "secret")
	})
}

func TestSwitchOverToTheNextPair(t *testing.T) {
	for name, a := range map[string]*keyAPI{
		"bad key":    {deniedKeys: map[string]bool{keyA: true}},
		"bad secret": {deniedSigns: map[string]bool{keyA: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newKeyRig(t, a, StaticKeys{pair(keyA), pair(keyB)}, nil)
				var wg sync.WaitGroup
				for i := range 64 {
					wg.Go(func() {
						for { // as the queue would, until it is settled
							rep := r.one(fmt.Sprint("n-", i))
							if rep.End == order.EndAnswer {
								require.Equal(t, order.Accepted, rep.Verdict)
								return
							}
							require.Equal(t, order.EndHandBack, rep.End)
							time.Sleep(time.Second)
						}
					})
				}
				wg.Wait()
				for _, c := range r.api.posts {
					require.Equal(t, c.key, c.signature, "never mixed within an attempt")
				}
				require.Equal(t, keyB, r.keys.use().Key)
			})
		})
	}
}

// One order that is denied while others on the same pair are accepted.
func TestDeniedOrderIsItsOwnFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedOrder: map[string]bool{"bad": true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA), pair(keyB)}, nil)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 8 { // others, all the time
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					rep := r.one(fmt.Sprintf("good-%d-%d", i, n))
					require.Contains(t, []order.End{order.EndAnswer, order.EndHandBack}, rep.End)
					if rep.End == order.EndAnswer {
						require.Equal(t, order.Accepted, rep.Verdict)
					}
				}
			})
		}
		time.Sleep(time.Second)
		rep := r.one("bad")
		close(stop)
		wg.Wait()
		require.Equal(t, order.EndAnswer, rep.End)
		require.Equal(t, order.Rejected, rep.Verdict)
		require.Equal(t, "denied though others on the same pair are accepted", rep.Reason)
		require.Equal(t, []order.Verdict{order.Denied, order.Denied}, verdicts(rep), "twice, with an acceptance after each")
		require.Equal(t, keyA, r.keys.use().Key, "the pair stays")
		require.True(t, r.Gate().State().Open)
	})
}

// A hiccup of the API's authentication must not dead-letter what was in flight.
func TestTransientDenialSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		api := &fakeAPI{handle: func(c call) reply {
			if d := time.Since(began); d > 2*time.Second && d < 2500*time.Millisecond {
				return reply{status: 403, after: 50 * time.Millisecond}
			}
			return reply{after: 50 * time.Millisecond}
		}}
		r := newRigWith(t, api, StaticKeys{pair(keyA)}, nil)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for n := 0; time.Since(began) < 10*time.Second; n++ {
					rep := r.one(fmt.Sprintf("%d-%d", i, n))
					require.Equal(t, order.EndAnswer, rep.End)
					require.Equal(t, order.Accepted, rep.Verdict)
				}
			})
		}
		wg.Wait()
	})
}

func TestOneDeniedOrderAloneIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedOrder: map[string]bool{"bad": true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA)}, nil)
		for range 5 {
			require.NoError(t, r.Gate().Wait(context.Background()))
			rep := r.one("bad")
			require.Equal(t, order.EndHandBack, rep.End, "nobody can tell whose fault it is")
			require.Equal(t, order.ActHandBack, order.Decide(&rep, order.Facts{}).Action)
		}
	})
}

func TestKeysAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{}
		good, next := pair(keyA), pair(keyB)
		keys := &mutableKeys{pairs: []KeyPair{good}}
		r := newKeyRig(t, a, keys, nil)
		r.one("1")
		keys.set(nil, next)
		time.Sleep(16 * time.Second)
		r.one("2")
		require.Equal(t, keyB, r.api.posts[1].key)
		keys.set(errors.New("file is gone"))
		time.Sleep(time.Minute)
		r.one("3")
		require.Equal(t, keyB, r.api.posts[2].key, "the old ones stay")
		require.Equal(t, 1, strings.Count(r.log.String(), "file is gone"))
		require.Contains(t, r.Notes(), "going on with the old API keys: file is gone")
		keys.set(nil, good, next)
		time.Sleep(16 * time.Second)
		require.NotContains(t, fmt.Sprint(r.Notes()), "file is gone")
		r.one("4")
		require.Equal(t, keyA, r.api.posts[3].key)
		require.NotContains(t, r.log.String(), keyA)
		require.NotContains(t, r.log.String(), keyB)
	})
}

func TestReloadedKeysAreProbedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedKeys: map[string]bool{keyA: true}}
		keys := &mutableKeys{pairs: []KeyPair{pair(keyA)}}
		r := newKeyRig(t, a, keys, nil)
		r.one("1")
		time.Sleep(20 * time.Minute) // the probes have backed off to five minutes
		keys.set(nil, pair(keyB))
		began := time.Now()
		require.NoError(t, r.Gate().Wait(context.Background()))
		require.Less(t, time.Since(began), 16*time.Second)
		require.Equal(t, order.Accepted, r.one("1").Verdict)
	})
}

func TestProbeBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedKeys: map[string]bool{keyA: true, keyB: true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA), pair(keyB)}, nil)
		r.one("1")
		time.Sleep(time.Hour)
		_, gets := r.api.calls()
		require.Less(t, gets, 60, "two keys an hour: no ban")
		require.Greater(t, gets, 20)
	})
}

func TestPreflight(t *testing.T) {
	for name, c := range map[string]struct {
		account func(call) reply
		want    error
		text    string
	}{
		"good":        {func(call) reply { return reply{} }, nil, ""},
		"odd answer":  {func(call) reply { return reply{status: 400} }, nil, ""},
		"second key":  {func(c call) reply { return map[bool]reply{true: {status: 401}, false: {}}[c.key == keyA] }, nil, ""},
		"denied":      {func(call) reply { return reply{status: 403} }, ErrDenied, "403"},
		"unreachable": {func(call) reply { return reply{err: errReset} }, ErrUnreachable, "reset"},
		"down":        {func(call) reply { return reply{status: 503} }, ErrUnreachable, "503"},
		"wrong url":   {func(call) reply { return reply{status: 404} }, ErrUnreachable, "ORDERPOST_API_URL"},
		"redirect":    {func(call) reply { return reply{status: 301} }, ErrUnreachable, "301"},
		"busy":        {func(call) reply { return reply{status: 429} }, ErrUnreachable, "429"},
		"hangs":       {func(call) reply { return reply{hang: true} }, ErrUnreachable, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigWith(t, &fakeAPI{account: c.account}, StaticKeys{pair(keyA), pair(keyB)}, nil)
				err := r.Preflight(context.Background())
				if c.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, c.want)
				require.Contains(t, err.Error(), c.text)
				require.NotContains(t, err.Error(), keyA)
			})
		})
	}
}

func TestPreflightIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, &fakeAPI{account: func(call) reply { return reply{hang: true} }}, StaticKeys{pair(keyA)}, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Preflight(ctx), context.DeadlineExceeded)
	})
}

func TestTimeErrorIsMeasuredAnewAndAskedOnce(t *testing.T) {
	rules := "rules:\n  - when: body.code == 100101\n    verdict: denied\n    time_error: true\n"
	ahead := 90 * time.Second
	answerTime := func(c call) reply {
		date := map[string]string{"Date": time.Now().Add(ahead).UTC().Format("Mon, 02 Jan 2006 15:04:05") + " GMT"}
		if off := time.Now().Add(ahead).UnixMilli() - c.stamp; off > 5000 {
			return reply{status: 401, body: `{"code":100101}`, header: date}
		}
		return reply{header: date}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, answerTime, func(c *Config) { c.Clock = ClockServer })
		r.judge.Rules = mustRules(t, rules)
		rep := r.one("n")
		require.Equal(t, order.Accepted, rep.Verdict, "corrected by the answer's own Date")
		require.Equal(t, 2, rep.History.Attempts)
		_, gets := r.api.calls()
		require.Zero(t, gets, "the key is not suspected")
		require.Contains(t, r.log.String(), "clock differs")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, answerTime, nil) // local clock: the second one stands
		r.judge.Rules = mustRules(t, rules)
		rep := r.one("n")
		require.Equal(t, order.EndHandBack, rep.End)
		require.Equal(t, order.Denied, rep.Verdict)
		posts, _ := r.api.calls()
		require.LessOrEqual(t, posts, 3)
		require.Contains(t, r.log.String(), "ORDERPOST_CLOCK=server")
	})
}
