package submit

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/submit/answer"
)

// serverClock answers with Date headers of a clock that is off.
type serverClock struct {
	off time.Duration
	rnd *rand.Rand
}

// dated returns an answer with a Date.
func dated(date string) *answer.Answer {
	return &answer.Answer{Status: http.StatusCreated, Header: http.Header{"Date": {date}}}
}

// ask makes one exchange in simulated time and tells the clock of it.
func (s serverClock) ask(c *clock) {
	sent := time.Now()
	there := time.Duration(s.rnd.IntN(50)) * time.Millisecond
	time.Sleep(there)
	date := time.Now().Add(s.off).UTC().Format(http.TimeFormat) // cut to the second
	time.Sleep(time.Duration(s.rnd.IntN(50)) * time.Millisecond)
	c.observe(dated(date), sent, time.Now(), false)
	time.Sleep(time.Duration(300+s.rnd.IntN(700)) * time.Millisecond)
}

func TestOffsetIsFoundFarBelowASecond(t *testing.T) {
	for _, off := range []time.Duration{0, 1234 * time.Millisecond, -37 * time.Second, 90 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(ClockServer, time.Hour*24, zerolog.Nop())
			s := serverClock{off, rand.New(rand.NewPCG(1, 2))}
			for range 100 {
				s.ask(c)
			}
			e := c.estimate()
			require.InDelta(t, off.Seconds(), e.Offset.Seconds(), 0.05, "%+v", e)
			require.LessOrEqual(t, (e.Offset - off).Abs(), e.Error+time.Millisecond, "the error bound holds")
			require.Equal(t, clockSamples, e.Samples)
			stamp := c.stamp(0)
			require.InDelta(t, time.Now().Add(off).UnixMilli(), stamp, 50)
		})
	}
}

// The first answer alone moves nothing.
func TestTheFirstLiarDoesNotMoveTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(ClockServer, 2*time.Second, zerolog.Nop())
		c.observe(dated(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), time.Now(), time.Now(), false)
		require.True(t, c.contradicted())
		require.Equal(t, time.Now(), c.deadlines())
		require.Equal(t, time.Now(), c.now())
		s := serverClock{0, rand.New(rand.NewPCG(1, 2))}
		s.ask(c)
		require.False(t, c.contradicted())
		require.Less(t, c.estimate().Offset.Abs(), time.Second)
	})
}

// A closed gate leaves a probe now and then: two answers in a row are enough to see that
// the API's clock was set, however many agreed before. The error bound stays small.
func TestTwoAnswersShowAJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(ClockLocal, 2*time.Second, zerolog.Nop())
		s := serverClock{0, rand.New(rand.NewPCG(1, 2))}
		for range 100 {
			s.ask(c)
		}
		s.off = -10 * time.Minute
		s.ask(c)
		require.Empty(t, c.advice(), "one answer may be a cache's")
		time.Sleep(5 * time.Minute)
		s.ask(c)
		e := c.estimate()
		require.InDelta(t, -600, e.Offset.Seconds(), 1)
		require.Less(t, e.Error, time.Second)
		require.Equal(t, 2, e.Samples)
		require.Equal(t, "this machine's clock is 10m0s ahead of the API's: set it, or ORDERPOST_CLOCK=server", c.advice())
	})
}

// Of several servers behind one name, one that is wrong does not move the estimate while
// the others answer in between.
func TestOneOfSeveralServersIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(ClockServer, time.Second, zerolog.Nop())
		rnd := rand.New(rand.NewPCG(1, 2))
		right, wrong := serverClock{0, rnd}, serverClock{time.Minute, rnd}
		for range 40 {
			right.ask(c)
			right.ask(c)
			wrong.ask(c)
			require.Less(t, c.estimate().Offset.Abs(), time.Second)
		}
	})
}

// Answers before this machine's own clock was set do not count: they were measured by another
// clock.
func TestThisMachinesClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(ClockLocal, 2*time.Second, zerolog.Nop())
		s := serverClock{10 * time.Minute, rand.New(rand.NewPCG(1, 2))}
		for range 10 {
			s.ask(c)
		}
		require.NotEmpty(t, c.advice())
		s.off, c.wall = 0, c.wall.Add(-10*time.Minute) // as if the wall clock had been put forward since
		s.ask(c)
		require.Empty(t, c.advice())
		require.Equal(t, 1, c.estimate().Samples)
		s.off, c.wall = -time.Hour, c.wall.Add(-time.Hour) // and now further, to a wrong time
		s.ask(c)
		require.Empty(t, c.advice(), "one answer may be a cache's")
		s.ask(c)
		require.InDelta(t, -3600, c.estimate().Offset.Seconds(), 1)
		require.Equal(t, 2, c.estimate().Samples)
	})
}

// A refused timestamp outweighs the answers before it at once.
func TestARefusedTimestampCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(ClockServer, time.Second, zerolog.Nop())
		s := serverClock{0, rand.New(rand.NewPCG(1, 2))}
		for range 10 {
			s.ask(c)
		}
		a := dated(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		a.Status = http.StatusInternalServerError // a rule may say of any status that it refuses the timestamp
		c.observe(a, time.Now(), time.Now(), true)
		require.InDelta(t, 3600, c.estimate().Offset.Seconds(), 1)
	})
}

func TestAnswersThatTellNothingOfTheClock(t *testing.T) {
	now := time.Now()
	date := now.UTC().Format(http.TimeFormat)
	c := newClock(ClockServer, time.Hour, zerolog.Nop())
	for _, h := range []http.Header{{}, {"Date": {"soon"}}, {"Date": {date}, "Age": {"100"}}} {
		c.observe(&answer.Answer{Status: http.StatusCreated, Header: h}, now, now, false)
	}
	for _, status := range []int{301, 407, 502, 503} { // of who stands between, perhaps
		a := dated(now.Add(3 * time.Hour).UTC().Format(http.TimeFormat))
		a.Status = status
		c.observe(a, now, now, false)
		c.observe(a, now, now, false)
	}
	c.observe(dated(date), now.Add(-10*time.Second), now, false)
	require.Zero(t, c.estimate().Samples)
	require.InDelta(t, time.Now().UnixMilli(), c.stamp(0), 1000)
}

func TestClockWarnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := newClock(ClockLocal, 2*time.Second, zerolog.New(&log))
		for _, off := range []time.Duration{30 * time.Second, 0} {
			s := serverClock{off, rand.New(rand.NewPCG(1, 2))}
			for range 100 {
				s.ask(c)
			}
		}
		require.Equal(t, 1, strings.Count(log.String(), "clock differs"))
		require.Equal(t, 1, strings.Count(log.String(), "agrees"))
		require.InDelta(t, time.Now().UnixMilli(), c.stamp(0), 1, "the local clock is not corrected")
	})
}
