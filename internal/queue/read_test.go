package queue

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestR2OnlyACompleteBatchProvesAbsence(t *testing.T) {
	head := func(pairs ...string) nats.Header {
		h := nats.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		status string
		h      nats.Header
		done   bool
		err    error
	}{
		"nothing matches":          {"404", head("Description", "No Results"), true, nil},
		"a message did not load":   {"404", head("Description", "Message Not Found"), false, errIncomplete},
		"complete":                 {"204", head("Nats-Num-Pending", "0"), true, nil},
		"cut at the byte limit":    {"204", head("Nats-Num-Pending", "3"), false, errCut},
		"no stream answers":        {"503", head(), false, nats.ErrNoResponders},
		"too many results":         {"413", head(), false, errIncomplete},
		"end marker with no count": {"204", head(), false, errIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := endOfBatch(c.status, c.h)
			require.Equal(t, c.done, done)
			require.ErrorIs(t, err, c.err)
		})
	}
}
