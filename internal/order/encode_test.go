package order

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// AppendJSON says what encoding/json says, whatever the record.
func TestAppendJSONIsEncodingJSON(t *testing.T) {
	at := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		r := &Record{
			Note: NoteKind(rapid.IntRange(0, len(noteNames)-1).Draw(t, "note")), Verdict: rapid.SampledFrom(append(Verdicts(), VerdictNone)).Draw(t, "verdict"),
			Position: storedAt(at.Draw(t, "enqueued")), SettledAt: at.Draw(t, "settled"), NotBefore: at.Draw(t, "before"),
			History: History{FirstAttemptAt: at.Draw(t, "first"), LastAttemptAt: at.Draw(t, "last"), LastTimestamp: rapid.Int64Range(0, 1<<53).Draw(t, "stamp")},
		}
		fill(t, reflect.ValueOf(r).Elem())
		if rapid.Bool().Draw(t, "person") {
			r.Interventions = []Intervention{{By: "anna", At: time.Unix(1, 0).UTC()}}
			r.Earlier = []Earlier{{IntentID: "g-0", Outcome: "rejected", At: time.Unix(4, 0).UTC(), Letter: 5}}
			r.Conflicts = []Conflict{{IntentID: "g-2", Position: storedAt(time.Unix(2, 0).UTC()), Letter: 7, Dropped: true}}
			r.Recalled = Recalled{At: time.Unix(3, 0).UTC(), Status: 200, Answer: `{"code":0}`, Rule: 2, Only: true}
		}
		want, err := json.Marshal(r)
		require.NoError(t, err)
		got, err := r.AppendJSON(nil)
		require.NoError(t, err)
		var a, b Record
		require.NoError(t, json.Unmarshal(want, &a))
		require.NoError(t, json.Unmarshal(got, &b), "%s", got)
		require.Equal(t, a, b)
		require.JSONEq(t, string(want), string(got))
	})
}

// fill draws every text, number and flag of a record, so that a member that is
// added and not encoded is found out.
func fill(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); {
		case name == "History", name == "Position":
			fill(t, f)
		case f.Kind() == reflect.String:
			f.SetString(rapid.String().Draw(t, name))
		case f.Kind() == reflect.Bool:
			f.SetBool(rapid.Bool().Draw(t, name))
		case f.Kind() == reflect.Int, name == "Birth":
			f.SetInt(int64(rapid.IntRange(0, math.MaxInt32).Draw(t, name)))
		case f.Kind() == reflect.Uint64:
			f.SetUint(uint64(rapid.IntRange(0, math.MaxInt32).Draw(t, name)))
		}
	}
}

func TestAppendJSONOfWhatJSONCannotHold(t *testing.T) {
	got, err := (&Record{OrderNo: "a\xffb", Word: "accepted"}).AppendJSON(nil)
	require.NoError(t, err)
	var r Record
	require.NoError(t, json.Unmarshal(got, &r))
	require.Equal(t, "a\uFFFDb", r.OrderNo)
	_, err = (&Record{SettledAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}).AppendJSON(nil)
	require.Error(t, err)
}

func sampleRecord() *Record {
	now := time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)
	r := &Record{OrderNo: "B-000001", Verdict: Accepted, Status: 200, Response: `{"code":0}`, Reason: "accepted by status 200",
		History: History{Attempts: 1, FirstAttemptAt: now, LastAttemptAt: now, LastTimestamp: now.UnixMilli()}, Position: storedAt(now), SettledAt: now,
		Batch: "b", Worker: "w", IntentID: "b:1", BodyHash: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", WriteID: "x", Settled: 1, Delivered: 1}
	r.SetOutcome(OutcomeAccepted)
	return r
}

func BenchmarkAppendJSON(b *testing.B) {
	r, buf := sampleRecord(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = r.AppendJSON(buf[:0])
	}
}

func TestAppendJSONAllocatesNothing(t *testing.T) {
	r, buf := sampleRecord(), make([]byte, 0, 1024)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.AppendJSON(buf[:0]) }))
}
