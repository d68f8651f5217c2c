package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// jsonNames lists the names under which a struct is marshalled, those of
// embedded structs among them.
func jsonNames(typ reflect.Type) []string {
	var names []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, jsonNames(f.Type)...)
		case name != "-" && f.IsExported():
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// at walks into a decoded document.
func at(t *testing.T, doc any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, ok := doc.(map[string]any)
		require.True(t, ok, "%v: not an object", path)
		require.Contains(t, object, name, "%v", path)
		doc = object[name]
	}
	return doc
}

func keys(t *testing.T, doc any, path ...string) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(at(t, doc, path...).(map[string]any)))
}

func schemaText(t *testing.T, name string) any {
	t.Helper()
	return loaded(t, read(t, "docs/schema/"+name+".json"))
}

// TestSchemasNameEveryField: a field that the code writes and no document
// mentions would be found by its readers only.
func TestSchemasNameEveryField(t *testing.T) {
	result, letter := schemaText(t, "result"), schemaText(t, "dead-letter")
	letterType := reflect.TypeFor[settle.Letter]()
	rawHeaders, _ := letterType.FieldByName("RawHeaders")
	for _, c := range []struct {
		doc  any
		path []string
		code reflect.Type
	}{
		{result, []string{"properties"}, reflect.TypeFor[order.Record]()},
		{result, []string{"properties", "conflicts", "items", "properties"}, reflect.TypeFor[order.Conflict]()},
		{result, []string{"properties", "recalled", "properties"}, reflect.TypeFor[order.Recalled]()},
		{letter, []string{"properties", "recalled", "properties"}, reflect.TypeFor[order.Recalled]()},
		{result, []string{"properties", "earlier", "items", "properties"}, reflect.TypeFor[order.Earlier]()},
		{letter, []string{"properties"}, letterType},
		{letter, []string{"properties", "trail", "items", "properties"}, reflect.TypeFor[order.Attempt]()},
		{letter, []string{"properties", "raw_headers", "items", "properties"}, rawHeaders.Type.Elem()},
	} {
		require.Equal(t, jsonNames(c.code), keys(t, c.doc, c.path...), "%v", c.path)
	}
}

// words gives the names of a closed set.
func words[T fmt.Stringer](set ...T) []any {
	out := make([]any, len(set))
	for i, w := range set {
		out[i] = w.String()
	}
	return out
}

func noteKinds() []order.NoteKind {
	return []order.NoteKind{order.NoteDelayed, order.NoteHandedBack, order.NoteAttempt, order.NoteSuspect}
}

func TestSchemasListTheVocabulary(t *testing.T) {
	result, letter := schemaText(t, "result"), schemaText(t, "dead-letter")
	filed := slices.DeleteFunc(order.Outcomes(), func(o order.Outcome) bool { return !o.NeedsLetter() })
	verdicts := words(order.Verdicts()...)
	for _, c := range []struct {
		doc  any
		path []string
		want []any
	}{
		{result, []string{"outcome"}, append(words(order.Outcomes()...), order.Retrying)},
		{result, []string{"note"}, words(noteKinds()...)},
		{result, []string{"verdict"}, verdicts},
		{letter, []string{"outcome"}, words(filed...)},
		{letter, []string{"verdict"}, verdicts},
		{letter, []string{"trail", "items", "properties", "verdict"}, verdicts},
		{schemaText(t, "verdict"), []string{"verdict"}, verdicts},
		{schemaText(t, "pending"), []string{"verdict"}, verdicts},
	} {
		path := append(append([]string{"properties"}, c.path...), "enum")
		require.Equal(t, c.want, at(t, c.doc, path...), "%v", path)
	}
	var next order.NoteKind
	require.Error(t, next.UnmarshalText([]byte("no note")))
	require.Contains(t, (order.NoteSuspect + 1).String(), "out-of-range", "a new kind of note belongs into noteKinds and the schema")
}

// fullRecord sets every field, so that each one is checked.
func fullRecord(o order.Outcome, note order.NoteKind) order.Record {
	now := time.Now().UTC()
	r := order.Record{
		OrderNo: "é 1", Verdict: order.Unsure, Status: 503, Response: "<html>", Reason: "left open by status 503", Error: "no answer",
		History: order.History{Attempts: 3, Unsure: true, FirstAttemptAt: now, LastAttemptAt: now, LastTimestamp: now.UnixMilli(),
			GateWaitMS: 7, Suspects: 1, Lost: 2},
		Position: order.Position{EnqueuedAt: now}, Batch: "b", Source: "f:1", Worker: "w1", IntentID: "id", BodyHash: strings.Repeat("0a", 32),
		WriteID: "x", Delivered: 3, Proven: true, By: "somebody", Note: note, NotBefore: now,
	}
	r.SetOutcome(o)
	if o != order.OutcomeNone {
		r.SettledAt = now
	}
	r.Refuse(&order.Record{IntentID: "other", BodyHash: strings.Repeat("0b", 32), Position: order.Position{EnqueuedAt: now}, SettledAt: now, Batch: "c", Source: "g:1"})
	return *order.Merge(nil, &r)
}

// TestEveryRecordIsValid covers each outcome and each kind of note, with every
// field that such a record can have, and with none that it can do without.
func TestEveryRecordIsValid(t *testing.T) {
	result := schema(t, "result")
	check := func(o order.Outcome, note order.NoteKind) {
		bare := order.Record{OrderNo: "A", IntentID: "id", Note: note}
		bare.SetOutcome(o)
		full := fullRecord(o, note)
		for _, r := range []*order.Record{&full, order.Merge(nil, &bare)} {
			text, err := json.Marshal(r)
			require.NoError(t, err)
			require.NoError(t, result.Validate(loaded(t, string(text))), "%s", text)
		}
	}
	for _, o := range order.Outcomes() {
		check(o, order.NoteNone)
	}
	for _, n := range noteKinds() {
		check(order.OutcomeNone, n)
	}
}

// TestBadRecordsAreNotValid: each differs from a good one in one thing.
func TestBadRecordsAreNotValid(t *testing.T) {
	for _, c := range []struct{ schema, good, bad string }{
		{"result", `"outcome":"accepted"`, `"outcome":"ok"`},
		{"result", `"outcome":"accepted"`, `"outcome":""`},
		{"result", `"outcome":"accepted"`, `"outcome":"retrying"`}, // without a note
		{"result", `"outcome":"accepted",`, `"outcome":"accepted","note":"attempt",`},
		{"result", `"outcome":"accepted",`, `"outcome":"accepted","conflicts":[{"body_hash":"aa"}],`},
		{"result", `"outcome":"accepted",`, `"outcome":"accepted","not_before":"2026-01-01T00:00:00Z",`},
		{"result", `"attempts":1,`, ``},
		{"result", `"attempts":1`, `"attempts":-1`},
		{"result", `"attempts":1`, `"attempts":"1"`},
		{"result", `"settled":1`, `"settled":0`},
		{"result", `"order_no":"A"`, `"order_no":""`},
		{"result", `"order_no":"A"`, `"order_no":7`},
		{"result", `"intent_id":"i",`, ``},
		{"result", `"settled_at":"2026-01-01T00:00:00Z"`, `"settled_at":"yesterday"`},
		{"result", `"verdict":"accepted"`, `"verdict":"maybe"`},
		{"result", `"body_hash":"` + strings.Repeat("0a", 32), `"body_hash":"` + strings.Repeat("0A", 32)},
		{"dead-letter", `"outcome":"rejected"`, `"outcome":"accepted"`},
		{"dead-letter", `"filed_at":"2026-01-01T00:00:00Z",`, ``},
		{"dead-letter", `"headers":{"a":["b"]}`, `"headers":{"a":"b"}`},
		{"dead-letter", `"raw_subject":"YQ=="`, `"raw_subject":"a b"`},
		{"dead-letter", `"verdict":"retry","duration_ms":1`, `"verdict":"retry"`},
	} {
		good := `{"order_no":"A","outcome":"accepted","verdict":"accepted","attempts":1,"unsure":false,"intent_id":"i","write_id":"w",` +
			`"settled":1,"settled_at":"2026-01-01T00:00:00Z","body_hash":"` + strings.Repeat("0a", 32) + `"}`
		if c.schema == "dead-letter" {
			good = `{"order_no":"A","outcome":"rejected","attempts":1,"unsure":false,"intent_id":"i","filed_at":"2026-01-01T00:00:00Z",` +
				`"subject":"orders.new.A","headers":{"a":["b"]},"raw_subject":"YQ==",` +
				`"trail":[{"at":"2026-01-01T00:00:00Z","verdict":"retry","duration_ms":1}]}`
		}
		s := schema(t, c.schema)
		require.NoError(t, s.Validate(loaded(t, good)))
		require.Contains(t, good, c.good)
		require.Error(t, s.Validate(loaded(t, strings.Replace(good, c.good, c.bad, 1))), "%s instead of %s", c.bad, c.good)
	}
}

// beyondSchema are the rules that the intent's schema only describes.
var beyondSchema = []order.Code{order.CodeInvalidJSON, order.CodeInvalidUTF8, order.CodeTooLarge, order.CodeTooDeep,
	order.CodeDuplicateName, order.CodeLoneSurrogate, order.CodeNumberNotExact, order.CodeNumberOutOfRange}

// TestIntentSchemaAgreesWithTheParser: what the schema refuses is refused by a
// worker, and the other way round but for the rules that no schema can say.
func TestIntentSchemaAgreesWithTheParser(t *testing.T) {
	intent := schema(t, "intent")
	refusals := 0
	for _, text := range []string{
		`{"order_no":"A","timeout":30}`, `{"order_no":"A","timeout":-1.0}`, `{"order_no":"A","timeout":3e2,"timestamp":"x"}`,
		`{"order_no":" ","timeout":0,"items":[{"a":null}],"é":1.5}`, `{"order_no":"` + strings.Repeat("x", order.MaxOrderNo) + `","timeout":1}`,
		`{}`, `[]`, `null`, `"x"`, `{"order_no":"A"}`, `{"timeout":1}`, `{"order_no":"","timeout":1}`, `{"order_no":7,"timeout":1}`,
		`{"order_no":null,"timeout":1}`, `{"order_no":"A","timeout":"30"}`, `{"order_no":"A","timeout":1.5}`, `{"order_no":"A","timeout":null}`,
		`{"order_no":"A","timeout":1,"__proto__":{}}`, `{"order_no":"` + strings.Repeat("x", order.MaxOrderNo+1) + `","timeout":1}`,
	} {
		_, err := order.Parse([]byte(text))
		invalid := intent.Validate(loaded(t, text))
		require.Equal(t, err == nil, invalid == nil, "%s: the parser says %v, the schema %v", text, err, invalid)
		if err != nil {
			refusals++
		}
	}
	require.Greater(t, refusals, 10)
	for _, text := range []string{ // the schema lets these pass, and its description warns of them
		`{"order_no":"A","timeout":1,"id":9007199254740993}`, `{"order_no":"A","timeout":1,"timeout":1}`,
		`{"order_no":"A","timeout":1,"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
	} {
		var refused *order.Error
		_, err := order.Parse([]byte(text))
		require.True(t, errors.As(err, &refused), text)
		require.Contains(t, beyondSchema, refused.Code)
		require.NoError(t, intent.Validate(loaded(t, text)))
	}
}

// visit is one order's fate in TestStoredRecordsAreValid.
type visit struct {
	word string // what the record then says
	body string // "": a good one
	end  func(*testing.T, *queue.Queue, *settle.Delivery)
}

func ends(r order.Report, f order.Facts) func(*testing.T, *queue.Queue, *settle.Delivery) {
	return func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
		now := time.Now().UTC()
		r.History = d.History
		if r.Verdict != order.VerdictNone {
			r.History.Attempts++
			r.History.FirstAttemptAt, r.History.LastAttemptAt, r.History.LastTimestamp = now, now, now.UnixMilli()
			r.Trail = []order.Attempt{{At: now, Verdict: r.Verdict, Status: r.Status, Reason: "a reason"}}
		}
		r.History.Unsure = r.History.Unsure || r.Verdict == order.Unsure
		settleAs(t, q, d, r, f)
	}
}

func notes(write func(*queue.Queue, *testing.T, *settle.Delivery) error) func(*testing.T, *queue.Queue, *settle.Delivery) {
	return func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
		require.NoError(t, write(q, t, d))
		d.Release()
	}
}

// visits brings about every outcome and every kind of note but cancelled,
// which is a person's and not a worker's.
func visits() []visit {
	answer := func(v order.Verdict, status int) order.Report {
		return order.Report{End: order.EndAnswer, Verdict: v, Status: status, Response: "{}", Reason: "rule 1", Error: "detail"}
	}
	return []visit{
		{"accepted", "", ends(answer(order.Accepted, 200), order.Facts{})},
		{"rejected", "", ends(answer(order.Rejected, 422), order.Facts{})},
		{"unknown", "", ends(answer(order.Unsure, 504), order.Facts{Policy: order.Park})},
		{"exhausted", "", ends(order.Report{End: order.EndTotalBudget, Verdict: order.Retry, Status: 429}, order.Facts{})},
		{"expired", "", ends(order.Report{End: order.EndDeadline}, order.Facts{})},
		{"invalid", `{"timeout":"\ufffd`, ends(order.Report{End: order.EndInvalid, Error: "not JSON"}, order.Facts{})},
		{"poison", "", ends(order.Report{End: order.EndPoison}, order.Facts{})},
		{"delayed", "", ends(order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Status: 429, Delay: time.Hour}, order.Facts{})},
		{"attempt", "", notes(func(q *queue.Queue, t *testing.T, d *settle.Delivery) error {
			err := q.Worker.NoteAttempt(t.Context(), d, d.History)
			return err
		})},
		{"suspect", "", notes(func(q *queue.Queue, t *testing.T, d *settle.Delivery) error {
			return q.Worker.NoteSuspect(t.Context(), d)
		})},
		{"handed-back", "", notes(func(q *queue.Queue, t *testing.T, d *settle.Delivery) error {
			return q.Worker.HandBack(t.Context(), d, time.Hour)
		})},
	}
}

// stored publishes, works off and settles one order for each visit.
func stored(t *testing.T, q *queue.Queue, all []visit) {
	t.Helper()
	for _, v := range all {
		body := v.body
		if body == "" {
			body = fmt.Sprintf(`{"order_no":%q,"timeout":30}`, v.word)
		}
		_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: v.word, Body: []byte(body), ID: "id:" + v.word, Batch: "b", Source: "f:1",
			Deadline: time.Now().Add(time.Hour), Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
		require.NoError(t, err)
		d := pull(t, q)
		require.Equal(t, v.word, d.OrderNo())
		v.end(t, q, d)
	}
}

// TestStoredRecordsAreValid reads what the queue really wrote.
func TestStoredRecordsAreValid(t *testing.T) {
	q, nc := startBroker(t, func(*queue.Config) {})
	stored(t, q, visits())
	result, letter := schema(t, "result"), schema(t, "dead-letter")
	letters := 0
	for _, v := range visits() {
		msg := lastMsg(t, nc, "ORDERS_RESULTS", "orders.results."+v.word)
		require.NotNil(t, msg, v.word)
		require.NoError(t, result.Validate(loaded(t, string(msg.Data))), "%s", msg.Data)
		var r order.Record
		require.NoError(t, json.Unmarshal(msg.Data, &r))
		require.Contains(t, []string{r.Word, r.Note.String()}, v.word)
		require.Equal(t, r.Word, msg.Header.Get(settle.HeaderOutcome))

		filed := lastMsg(t, nc, "ORDERS_DEAD", "orders.dead."+v.word)
		require.Equal(t, r.Outcome().NeedsLetter(), filed != nil, v.word)
		if filed != nil {
			particulars := filed.Header.Get("Order-Letter")
			require.NoError(t, letter.Validate(loaded(t, particulars)), particulars)
			letters++
		}
	}
	require.Equal(t, 6, letters)
}

// TestOddLettersAreValid: one about a conflict, and one whose header is not UTF-8.
func TestOddLettersAreValid(t *testing.T) {
	q, nc := startBroker(t, func(*queue.Config) {})
	rejected := order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422}
	publishRaw(t, q, nc, &nats.Msg{Subject: "orders.new.A", Data: []byte(`{"order_no":"A","timeout":30}`),
		Header: nats.Header{"Nats-Msg-Id": {"1"}, "X-Latin": {"\xe9"}}})
	ends(rejected, order.Facts{})(t, q, pull(t, q))
	for i, qty := range []string{"1", "2"} {
		msg := &nats.Msg{Subject: "orders.new.B", Data: []byte(`{"order_no":"B","timeout":30,"qty":"` + qty + `"}`),
			Header: nats.Header{"Nats-Msg-Id": {"B" + qty}}}
		publishRaw(t, q, nc, msg)
		d := pull(t, q)
		if i == 0 {
			ends(order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}, order.Facts{})(t, q, d)
			continue
		}
		require.Equal(t, settle.WorkConflict, d.Work)
		_, err := q.Worker.Refuse(t.Context(), d)
		require.NoError(t, err)
		d.Release()
	}
	letter := schema(t, "dead-letter")
	for no, field := range map[string]string{"A": "raw_headers", "B": "conflict"} {
		particulars := lastMsg(t, nc, "ORDERS_DEAD", "orders.dead."+no).Header.Get("Order-Letter")
		require.Contains(t, particulars, `"`+field+`":`)
		require.NoError(t, letter.Validate(loaded(t, particulars)), particulars)
	}
}

// publishRaw stores an intent as it is, once the order's earlier one is gone.
func publishRaw(t *testing.T, q *queue.Queue, nc *nats.Conn, msg *nats.Msg) {
	t.Helper()
	gone(t, q, strings.TrimPrefix(msg.Subject, newPrefix))
	require.NotContains(t, request(t, nc, msg), "error")
}
