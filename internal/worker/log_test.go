package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/patient"
)

// lines decodes a log.
func lines(t *testing.T, buf *patient.Buffer) (out []map[string]any) {
	t.Helper()
	for dec := json.NewDecoder(strings.NewReader(buf.String())); dec.More(); {
		var line map[string]any
		require.NoError(t, dec.Decode(&line))
		out = append(out, line)
	}
	return out
}

func record(o order.Outcome) *order.Record {
	at := time.Unix(1, 0)
	rec := &order.Record{OrderNo: "A", Response: "Größe", Position: order.Position{EnqueuedAt: at}, SettledAt: at.Add(1500 * time.Millisecond)}
	rec.SetOutcome(o)
	return rec
}

// TestOnlyAcceptedOrdersAreSampled: under load, and they are counted.
func TestOnlyAcceptedOrdersAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf patient.Buffer
		l := newOrderLog(zerolog.New(&buf), 3)
		for range 10 {
			l.settled(record(order.OutcomeAccepted), 1, "")
			for _, o := range order.Outcomes() {
				if o != order.OutcomeAccepted {
					l.settled(record(o), 1, "")
				}
			}
		}
		got := lines(t, &buf)
		require.Len(t, got, 3+10*(len(order.Outcomes())-1), "every other outcome has its line")
		time.Sleep(logWindow)
		synctest.Wait()
		got = lines(t, &buf)
		last := got[len(got)-1]
		require.EqualValues(t, 7, last["orders"])
		require.Contains(t, last["message"], "ORDERPOST_LOG_SAMPLE")

		buf = patient.Buffer{}
		l.settled(record(order.OutcomeAccepted), 1, "")
		require.Len(t, lines(t, &buf), 1, "a new second")
		l.flush()
		require.Len(t, lines(t, &buf), 1, "nothing was left out")
		for range 5 {
			l.settled(record(order.OutcomeAccepted), 1, "")
		}
		l.flush() // as at the end of the pool
		got = lines(t, &buf)
		require.EqualValues(t, 3, got[len(got)-1]["orders"])
	})
}

func TestWithoutSamplingEveryOrderHasItsLine(t *testing.T) {
	var buf patient.Buffer
	l := newOrderLog(zerolog.New(&buf), 0)
	for range 500 {
		l.settled(record(order.OutcomeAccepted), 1, "")
	}
	require.Len(t, lines(t, &buf), 500)
}

func TestALineSaysUnitsAndNoAnswer(t *testing.T) {
	var buf patient.Buffer
	newOrderLog(zerolog.New(&buf), 0).settled(record(order.OutcomeRejected), 1, "")
	newOrderLog(zerolog.New(&buf), 0).settled(record(order.OutcomeRejected), 1, "4bf9")
	got := lines(t, &buf)
	require.EqualValues(t, 1500, got[0]["took_ms"])
	require.NotContains(t, fmt.Sprint(got), "Gr", "the API's answer")
	for _, name := range []string{"trace_id", "error", "batch"} {
		require.NotContains(t, got[0], name, "it says nothing")
	}
	require.Equal(t, "4bf9", got[1]["trace_id"])
}

// TestOutcomesThatWaitForAPersonAreNotLoggedAtInfo.
func TestOutcomesThatWaitForAPersonAreNotLoggedAtInfo(t *testing.T) {
	for _, o := range order.Outcomes() {
		want := "info"
		switch o {
		case order.OutcomeUnknown:
			want = "warn"
		case order.OutcomePoison:
			want = "error"
		}
		var buf patient.Buffer
		l := newOrderLog(zerolog.New(&buf), 0)
		rec := record(o)
		l.settled(rec, 1, "")
		require.Equal(t, want, lines(t, &buf)[0]["level"], o)
	}
	var buf patient.Buffer
	l := newOrderLog(zerolog.New(&buf).Level(zerolog.WarnLevel), 0)
	poison := record(order.OutcomeUnknown)
	poison.Reason = order.EndPoison.String()
	l.settled(poison, 1, "")
	l.settled(record(order.OutcomeAccepted), 1, "")
	require.Len(t, lines(t, &buf), 1, "ORDERPOST_LOG_LEVEL counts")
	require.Equal(t, "error", lines(t, &buf)[0]["level"], "an attempt may have left before the worker went down")
}
