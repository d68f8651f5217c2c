package console

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// places does what a map does.
func TestPlacesAreAMap(t *testing.T) {
	const hashes = 3000
	r := rand.New(rand.NewPCG(1, 2))
	hash := func() uint64 { return r.Uint64N(hashes) * 0x9e3779b97f4a7c15 } // few hashes, in all shards
	var p places
	want := make(map[uint64]place)
	for range 20 * hashes {
		switch h := hash(); r.IntN(3) {
		case 0:
			p.remove(h)
			delete(want, h)
		default:
			at := place{r.Uint32(), r.Uint32()}
			p.put(h, at)
			want[h] = at
		}
	}
	n := 0
	for _, shard := range p {
		n += len(shard)
	}
	require.Len(t, want, n)
	for i := range uint64(hashes) {
		h := i * 0x9e3779b97f4a7c15
		at, found := p.get(h)
		wanted, exists := want[h]
		require.Equal(t, exists, found)
		require.Equal(t, wanted, at)
	}
}
