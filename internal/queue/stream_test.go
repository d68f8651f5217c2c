package queue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// everyMessage walks a stream from end to end.
func everyMessage(t *testing.T, s Stream) (all []*settle.Message) {
	t.Helper()
	require.NoError(t, s.Walk(t.Context(), 1, ToTheEnd, func(page []*settle.Message) error {
		require.NotEmpty(t, page)
		all = append(all, page...)
		return nil
	}))
	return all
}

// TestAStreamIsReadInParts: many more messages than one request takes are read
// from one sequence to another, or by their tokens, some of them twice.
func TestAStreamIsReadInParts(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	const n = 2*settle.ReadBatch + 50
	var in []settle.Intent
	var tokens []string
	for i := range n {
		no := fmt.Sprint("A-", i)
		in, tokens = append(in, intent(no, fmt.Sprint("i", i))), append(tokens, no)
	}
	publish(t, q, in...)
	s := q.Intents()
	state, err := s.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []uint64{n, 1, n}, []uint64{state.Messages, state.FirstSeq, state.LastSeq})
	all := everyMessage(t, s)
	require.Len(t, all, n)
	require.Equal(t, all[n-1].Time, state.LastTime.UTC())

	for _, part := range [][2]uint64{{1, 1}, {5, 300}, {n - 3, ToTheEnd}, {n + 1, ToTheEnd}, {1, 0}} {
		next := part[0]
		require.NoError(t, s.Walk(t.Context(), part[0], part[1], func(page []*settle.Message) error {
			for _, m := range page {
				require.Equal(t, next, m.Seq)
				require.Equal(t, tokens[m.Seq-1], s.Token(m))
				next++
			}
			return nil
		}))
		require.Equal(t, min(part[1], max(n, part[0]-1)), next-1)
	}

	asked := append(append([]string{"absent"}, tokens...), tokens[7])
	for _, replicas := range []int32{1, 3} { // with replicas each is read at the leader
		q.reader.replicas.Store(replicas)
		found := make([]*settle.Message, len(asked))
		require.NoError(t, s.Last(t.Context(), asked, func(i int, m *settle.Message) { found[i] = m }))
		require.Nil(t, found[0])
		for i, m := range found[1:] {
			require.Equal(t, asked[i+1], s.Token(m))
			require.NotEmpty(t, m.Data)
		}
	}
	heads, err := s.Peek(t.Context(), []string{"A-1", "absent", "A-2", "A-1"})
	require.NoError(t, err)
	require.Nil(t, heads[1])
	require.Equal(t, []uint64{2, 3, 2}, []uint64{heads[0].Seq, heads[2].Seq, heads[3].Seq})
	require.Empty(t, heads[0].Data)
	none, err := s.Peek(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
