package sandbox

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryFault meets each fault with a real client and asks the ledger what
// truly happened.
func TestEveryFault(t *testing.T) {
	for _, c := range []struct {
		fault   Fault
		set     func(*Faults)
		status  int // 0: no answer at all
		created int
	}{
		{FaultUnavailable, func(f *Faults) { f.Unavailable = 1 }, 503, 0},
		{FaultTooMany, func(f *Faults) { f.TooMany = 1 }, 429, 0},
		{FaultDropBefore, func(f *Faults) { f.DropBefore = 1 }, 0, 0},
		{FaultUnavailableAfter, func(f *Faults) { f.UnavailableAfter = 1 }, 503, 1},
		{FaultDropAfter, func(f *Faults) { f.DropAfter = 1 }, 0, 1},
		{FaultGarbage, func(f *Faults) { f.Garbage = 1 }, 200, 1},
		{FaultTold, func(f *Faults) { f.ToldBefore = 1 }, 409, 0},
		{FaultToldAfter, func(f *Faults) { f.ToldAfter, f.Told = 1, Told{303, `{"order_no":{order_no},"status":"created"}`} }, 303, 1},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			a := start(t, func(cfg *Config) { c.set(&cfg.Faults) })
			got, err := a.do(a.request(a.order("A-1")))
			if c.status == 0 {
				require.ErrorIs(t, err, io.EOF)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.status, got.status)
			require.Equal(t, c.created, a.server.Created("A-1"))
			l := a.server.Ledger()
			require.EqualValues(t, 1, l.Faults[c.fault.String()])
			require.EqualValues(t, 1, l.Answers[c.fault.answer().String()])
			require.EqualValues(t, 1, l.Requests)
			if c.fault == FaultTooMany {
				require.Equal(t, "1", got.header.Get("Retry-After"))
			}

			a.set(func(s *Settings) { s.Faults = Faults{} })
			want := 200
			if c.created > 0 {
				want = 409
			}
			require.Equal(t, want, a.post("A-1").status, "the next attempt learns the truth")
		})
	}
}

func TestSlowIsCreatedBeforeItIsAnswered(t *testing.T) {
	a := start(t, func(c *Config) { c.Faults.Slow, c.Faults.SlowDelay = 1, time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := a.do(a.request(a.order("A-1")).WithContext(ctx))
		failed <- err
	}()
	require.Eventually(t, func() bool { return a.server.Ledger().Faults["slow"] == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, a.server.Created("A-1"))
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
}

func TestCloseCutsDelaysShort(t *testing.T) {
	a := start(t, func(c *Config) { c.Latency = time.Hour })
	answers := make(chan int)
	go func() {
		got, err := a.do(a.request(a.order("A-1")))
		if err != nil {
			got.status = -1
		}
		answers <- got.status
	}()
	require.Eventually(t, func() bool { return a.server.Created("A-1") == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, a.server.Close())
	require.Equal(t, 200, <-answers)
}

func TestLatencyAndJitterAreWaited(t *testing.T) {
	a := start(t, func(c *Config) { c.Latency, c.Jitter = 20*time.Millisecond, 10*time.Millisecond })
	began := time.Now()
	require.Equal(t, 200, a.post("A-1").status)
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
}

func TestRefusedStaysRefused(t *testing.T) {
	a := start(t, func(c *Config) { c.Faults.Refuse, c.Seed = 0.5, 7 })
	var refused, created int
	for i := range 40 {
		no := fmt.Sprintf("A-%d", i)
		first := a.post(no)
		again := a.post(no)
		e, _ := a.server.Lookup(no)
		switch first.status {
		case 422:
			refused++
			require.Equal(t, 422, again.status)
			require.True(t, e.Refused)
			require.Zero(t, e.Created)
		case 200:
			created++
			require.Equal(t, 409, again.status)
			require.False(t, e.Refused)
		default:
			require.Fail(t, "neither refused nor created", first.body)
		}
	}
	require.Greater(t, refused, 8)
	require.Greater(t, created, 8)
	require.EqualValues(t, 2*refused, a.server.Ledger().Answers["refused"])
}

// TestRefusedAlthoughCreated: an answer was lost, and then the API refuses the
// order that it has: what a client must not take for "not created".
func TestRefusedAlthoughCreated(t *testing.T) {
	a := start(t, func(c *Config) { c.Faults.DropAfter = 1 })
	_, err := a.do(a.request(a.order("A-1")))
	require.ErrorIs(t, err, io.EOF)
	a.set(func(s *Settings) { s.Faults = Faults{Refuse: 1} })
	require.Equal(t, 422, a.post("A-1").status)
	e, _ := a.server.Lookup("A-1")
	require.Equal(t, 1, e.Created)
	require.True(t, e.Refused)
}

func TestMaxFaultsPerOrder(t *testing.T) {
	a := start(t, func(c *Config) { c.Faults = Faults{Unavailable: 1, MaxPerOrder: 3} })
	for range 3 {
		require.Equal(t, 503, a.post("A-1").status)
	}
	require.Equal(t, 200, a.post("A-1").status)
	e, _ := a.server.Lookup("A-1")
	require.Equal(t, 4, e.Attempts)
	require.Equal(t, 3, e.Faults)
	require.Equal(t, 503, a.post("A-2").status, "the cap is each order's own")
}

// TestSeedRepeats drives the same orders one after the other and then many at
// once: the faults must be the same, and those of another seed must not be.
func TestSeedRepeats(t *testing.T) {
	const orders, attempts = 60, 5
	run := func(seed uint64, parallel int) map[string][attempts]string {
		a := start(t, func(c *Config) {
			c.Seed = seed
			c.Faults = Faults{Unavailable: .2, TooMany: .2, DropBefore: .2, UnavailableAfter: .2, DropAfter: .2, Garbage: .2, Refuse: .2}
		})
		met := make(map[string][attempts]string, orders)
		var mu sync.Mutex
		var wg sync.WaitGroup
		todo := make(chan string)
		for range parallel {
			wg.Go(func() {
				for no := range todo {
					var seen [attempts]string
					for i := range seen {
						got, err := a.do(a.request(a.order(no)))
						seen[i] = fmt.Sprint(got.status, errors.Is(err, io.EOF), got.header.Get("Content-Type"), len(got.body) == 0)
					}
					mu.Lock()
					met[no] = seen
					mu.Unlock()
				}
			})
		}
		for i := range orders {
			todo <- fmt.Sprintf("A-%d", i)
		}
		close(todo)
		wg.Wait()
		return met
	}
	alone := run(1, 1)
	require.Equal(t, alone, run(1, 8))
	require.NotEqual(t, alone, run(2, 8))
}

// TestRatesAreMet draws many attempts: each kind comes as often as it should.
func TestRatesAreMet(t *testing.T) {
	const n = 100_000
	count := func(f Faults) (kinds [faultCount]int) {
		for i := range n {
			kind, slow := f.hits(attemptDraws(42, hashOrderNo(fmt.Appendf(nil, "A-%d", i)), 1))
			kinds[kind]++
			if slow {
				kinds[FaultSlow]++
			}
		}
		return kinds
	}
	require.Equal(t, n, count(Faults{})[NoFault])

	alone := count(Faults{DropAfter: 0.1, Slow: 0.3})
	require.InDelta(t, 0.1*n, alone[FaultDropAfter], 0.006*n)
	require.InDelta(t, 0.3*n, alone[FaultSlow], 0.006*n)

	// With six certain faults each is met by a sixth of the attempts.
	all := count(Faults{Unavailable: 1, TooMany: 1, DropBefore: 1, UnavailableAfter: 1, DropAfter: 1, Garbage: 1})
	for f := FaultUnavailable; f < FaultSlow; f++ {
		require.InDelta(t, n/6, all[f], 0.006*n, f)
	}
}

func TestRetryAfterForms(t *testing.T) {
	for form, want := range map[RetryAfterForm]string{
		RetryAfterSeconds: "3",
		RetryAfterDate:    testTime.Add(3 * time.Second).UTC().Format(http.TimeFormat),
		RetryAfterNone:    "",
	} {
		a := start(t, func(c *Config) {
			c.Faults = Faults{TooMany: 1, RetryAfter: 2500 * time.Millisecond, RetryAfterForm: form}
		})
		require.Equal(t, want, a.post("A-1").header.Get("Retry-After"), form)
	}
}

func TestGarbage(t *testing.T) {
	garbage := func(form GarbageForm) *api {
		return start(t, func(c *Config) { c.Faults = Faults{Garbage: 1, GarbageForm: form} })
	}
	for _, form := range []GarbageForm{GarbageMixed, GarbageHTML, GarbageTruncated, GarbageEmpty, GarbageBinary} {
		got := garbage(form).post("A-1")
		require.Equal(t, 200, got.status)
		require.Equal(t, -1, got.code(), "%s: %q", form, got.body)
	}
	t.Run("gzip bomb", func(t *testing.T) {
		a := garbage(GarbageGzipBomb)
		r := a.request(a.order("A-1"))
		r.Header.Set("Accept-Encoding", "gzip") // so that net/http leaves it alone
		got, err := a.do(r)
		require.NoError(t, err)
		require.Equal(t, "gzip", got.header.Get("Content-Encoding"))
		require.Less(t, len(got.body), 2<<20)
		plain, err := gzip.NewReader(strings.NewReader(got.body))
		require.NoError(t, err)
		n, err := io.CopyN(io.Discard, plain, 64<<20)
		require.NoError(t, err, "64 of its 1024 megabytes are enough to see: %d", n)
	})
	for _, form := range []GarbageForm{GarbageEndless, GarbageDrip} {
		t.Run(form.String(), func(t *testing.T) {
			a := garbage(form)
			res, err := a.client.Do(a.request(a.order("A-1")))
			require.NoError(t, err)
			defer res.Body.Close()
			_, err = io.ReadFull(res.Body, make([]byte, 2))
			require.NoError(t, err)
			require.NoError(t, a.server.Close())
			_, err = io.Copy(io.Discard, res.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the server cuts it when it closes")
		})
	}
}
