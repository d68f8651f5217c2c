package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPresent: people are told who is present by the broker's time. An entry of one that died before
// the broker's clock was put back is none of a worker that lives.
func TestPresent(t *testing.T) {
	for name, c := range map[string]struct {
		ago  []time.Duration // by the broker's clock
		want []string
	}{
		"nobody":                   {nil, nil},
		"all are present":          {[]time.Duration{0, PresenceTerm}, []string{"a", "b"}},
		"one has expired":          {[]time.Duration{0, PresenceTerm + 1}, []string{"a"}},
		"the clock was put back":   {[]time.Duration{-time.Hour, 0}, []string{"b"}},
		"the clock was put ahead":  {[]time.Duration{time.Hour, 0}, []string{"b"}},
		"all are gone":             {[]time.Duration{time.Minute, time.Minute}, nil},
		"all were, before a step":  {[]time.Duration{-time.Minute, -time.Minute}, nil},
		"a step of a decade ahead": {[]time.Duration{10 * 365 * 24 * time.Hour, time.Second}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Now: time.Now()}
			for i, ago := range c.ago {
				v.Members = append(v.Members, Presence{Worker: string(rune('a' + i)), SeenAt: v.Now.Add(-ago)})
			}
			var names []string
			for _, p := range v.Present() {
				names = append(names, p.Worker)
			}
			require.Equal(t, c.want, names)
		})
	}
}
