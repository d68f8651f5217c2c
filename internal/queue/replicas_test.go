package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a look counts differs for more than one reason, and only a damaged disk's stays.
func TestOnlyWhatStaysGoneIsAGap(t *testing.T) {
	type look struct {
		least, most uint64 // of the older records
		late        counted
	}
	quiet := counted{any: true}
	busy := counted{any: true, least: 5000, most: 5080, fall: 2}
	looks := func(n int, l look) (out []look) {
		for range n {
			out = append(out, l)
		}
		return out
	}
	for name, c := range map[string]struct {
		rest  bool
		looks []look
		gap   uint64 // 0 = none
	}{
		"damage at rest, however small":        {true, looks(3, look{99, 100, quiet}), 1},
		"two looks prove nothing":              {true, looks(2, look{56, 100, quiet}), 0},
		"damage under writes":                  {false, looks(3, look{56, 100, busy}), 44},
		"noise of writes":                      {false, looks(9, look{86, 100, busy}), 0},
		"one that catches up":                  {false, []look{{100, 9000, busy}, {1500, 9000, busy}, {3100, 9000, busy}, {4400, 9000, busy}, {6000, 9000, busy}, {9000, 9000, busy}}, 0},
		"records expire, on one sooner":        {true, []look{{950, 1000, quiet}, {800, 850, quiet}, {650, 700, quiet}, {500, 550, quiet}, {350, 400, quiet}}, 0},
		"one of them now and then":             {true, []look{{999, 1000, quiet}, {998, 999, quiet}, {997, 998, quiet}, {996, 997, quiet}}, 0},
		"older ones are replaced, one lags":    {false, []look{{9000, 9100, busy}, {7000, 7100, busy}, {5000, 5100, busy}, {3000, 3100, busy}}, 0},
		"damage while records expire":          {true, []look{{900, 1000, quiet}, {870, 970, quiet}, {840, 940, quiet}}, 100},
		"it ends with five looks that agree":   {true, append(looks(3, look{56, 100, quiet}), looks(5, look{100, 100, quiet})...), 0},
		"four may have missed it":              {true, append(looks(3, look{56, 100, quiet}), looks(4, look{100, 100, quiet})...), 44},
		"it stays while much expires after it": {true, append(looks(3, look{956, 1000, quiet}), []look{{800, 844, quiet}, {600, 644, quiet}, {400, 444, quiet}, {200, 244, quiet}, {100, 144, quiet}}...), 44},
	} {
		t.Run(name, func(t *testing.T) {
			w := &ReplicaWatch{census: &Census{conn: &Conn{n: DefaultConfig().names()}}, reads: gapReads}
			if !c.rest {
				w.before = time.Now()
			}
			for _, l := range c.looks {
				w.judge(counted{any: true, least: l.least, most: l.most}, l.late)
			}
			if c.gap == 0 {
				require.Nil(t, w.Gap())
				return
			}
			require.NotNil(t, w.Gap())
			require.Equal(t, ReplicaGap{"stream ORDERS_RESULTS", c.gap}, *w.Gap())
		})
	}
}

// Where answers are slow, many records are written between two of them. That is no gap, and
// what a replica lacks still is one.
func TestSlowAnswersAreNoGap(t *testing.T) {
	for name, lacks := range map[string]uint64{"healthy": 0, "damaged": 44} {
		t.Run(name, func(t *testing.T) {
			late, asked := uint64(300), 0
			older, lately, err := countOlder(gapReads, time.Now(), func(since time.Time) (uint64, error) {
				asked++
				n := late
				if since.IsZero() {
					n += 1000
					if asked%3 == 0 { // which replica answers changes
						n -= lacks
					}
				}
				if asked == 6 || asked == 13 { // the next answer is slow
					late += 90
				}
				return n, nil
			})
			require.NoError(t, err)
			require.EqualValues(t, 480, lately.most)
			if lacks == 0 {
				require.LessOrEqual(t, older.most, older.least)
				return
			}
			require.EqualValues(t, lacks, older.most-older.least)
		})
	}
}
