package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPresent: the broker's clock decides who has expired, also if it differs from
// this machine's.
func TestPresent(t *testing.T) {
	for name, c := range map[string]struct {
		seen []time.Duration // by the broker's clock, after this machine's present time
		want []string
	}{
		"nobody":               {nil, nil},
		"all are present":      {[]time.Duration{0, -PresenceTerm}, []string{"a", "b"}},
		"one has expired":      {[]time.Duration{0, -PresenceTerm - 1}, []string{"a"}},
		"the broker is behind": {[]time.Duration{-50 * time.Second, -52 * time.Second}, []string{"a", "b"}},
		"the broker is ahead":  {[]time.Duration{time.Hour, time.Hour - PresenceTerm - 1}, []string{"a"}},
		"all are gone":         {[]time.Duration{-time.Minute, -time.Minute}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &View{}
				for i, after := range c.seen {
					v.Members = append(v.Members, Presence{Worker: string(rune('a' + i)), SeenAt: time.Now().Add(after)})
				}
				var names []string
				for _, p := range v.Present() {
					names = append(names, p.Worker)
				}
				require.Equal(t, c.want, names)
			})
		})
	}
}
