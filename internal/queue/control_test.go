package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesOfWorkersBecomeKeys(t *testing.T) {
	for in, want := range map[string]string{"host-1.example:9": "host-1_example_9", "Größe *>": "Gr__e___", "a_B-9": "a_B-9"} {
		require.Equal(t, want, presenceKey(in))
	}
}
