package feed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPaceDepth(t *testing.T) {
	for name, c := range map[string]struct {
		pace pace
		want int
	}{
		"nothing is known yet":                    {pace{}, minDepth},
		"the slots are filled at the start":       {pace{slots: 64}, 80},
		"a limit bounds the start":                {pace{slots: 256, limit: 100}, 100},
		"a limit of one":                          {pace{slots: 64, limit: 1}, minDepth},
		"a second's worth at the limit":           {pace{slots: 64, limit: 100, perSecond: 100, posting: 5}, 105},
		"a slow API, the limit in reach":          {pace{slots: 256, limit: 100, perSecond: 100, posting: 200}, 300},
		"a slow API, all slots busy":              {pace{slots: 64, perSecond: 6.4, posting: 64}, 80},
		"a fast fleet":                            {pace{slots: 64, perSecond: 6400, posting: 64}, 6464},
		"the fleet is held: the floor, no more":   {pace{slots: 64, limit: 100}, 80},
		"older workers do not say their slots":    {pace{perSecond: 50}, 50},
		"many settled without a request":          {pace{slots: 64, limit: 100, perSecond: 5000, posting: 5}, 105},
		"a fraction is rounded up":                {pace{perSecond: 50.2}, 51},
		"a very low rate still fills what it can": {pace{slots: 4, perSecond: 0.5, posting: 1}, minDepth},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.pace.depth()) })
	}
}
