package contract

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func asyncAPI(t *testing.T) any {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(read(t, "docs/asyncapi.yaml")))
	require.NoError(t, err)
	return loaded(t, string(text))
}

// official compiles the schema that the AsyncAPI initiative publishes.
func official(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const id = "http://asyncapi.com/definitions/3.0.0/asyncapi.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // nothing but what is given here may be loaded
	require.NoError(t, c.AddResource(id, loaded(t, read(t, "internal/testing/contract/testdata/asyncapi/3.0.0.json"))))
	s, err := c.Compile(id)
	require.NoError(t, err)
	return s
}

func TestAsyncAPIIsValid(t *testing.T) {
	s := official(t)
	require.NoError(t, s.Validate(asyncAPI(t)))
	for _, damage := range []func(doc map[string]any){
		func(doc map[string]any) { doc["asyncapi"] = "2.0.0" },
		func(doc map[string]any) { delete(doc, "info") },
		func(doc map[string]any) { doc["unheard-of"] = true },
		func(doc map[string]any) {
			at(t, doc, "operations", "takeIntent").(map[string]any)["action"] = "publish"
		},
		func(doc map[string]any) { delete(at(t, doc, "operations", "takeIntent").(map[string]any), "channel") },
	} {
		doc := asyncAPI(t).(map[string]any)
		damage(doc)
		require.Error(t, s.Validate(doc), "the schema lets everything pass")
	}
}

// TestAsyncAPIRefsResolve: the official schema does not follow them.
func TestAsyncAPIRefsResolve(t *testing.T) {
	doc, seen := asyncAPI(t), 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				seen++
				if local, ok := strings.CutPrefix(ref, "#/"); ok {
					at(t, doc, strings.Split(local, "/")...)
				} else {
					schema(t, strings.TrimSuffix(path.Base(ref), ".json"))
					require.Equal(t, "schema", path.Dir(ref))
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(doc)
	require.Greater(t, seen, 10)
}

// TestAsyncAPINamesAreTheCodes: addresses and headers are those of an
// installation with default settings.
func TestAsyncAPINamesAreTheCodes(t *testing.T) {
	doc := asyncAPI(t)
	for channel, address := range map[string]string{
		"waiting": ".waiting.{lane}.{import}", "waitingForTime": ".waiting.at.{date}.{minute}.{second}.{lane}.{import}",
		"intents": ".new.{token}", "results": ".results.{token}",
		"deadLetters": ".dead.{token}",
	} {
		require.Equal(t, "orders"+address, at(t, doc, "channels", channel, "address"))
	}
	require.Len(t, keys(t, doc, "channels"), 5)

	intentHeaders := []string{settle.HeaderIntentID, settle.HeaderBatch, settle.HeaderSource, settle.HeaderDeadline, settle.HeaderNotBefore, settle.HeaderLookupUntil, settle.HeaderTraceparent}
	slices.Sort(intentHeaders)
	require.Equal(t, intentHeaders, keys(t, doc, "components", "messages", "intent", "headers", "properties"))

	outcomes := []string{"components", "messages", "result", "headers", "properties", settle.HeaderOutcome, "enum"}
	require.Equal(t, append(words(order.Outcomes()...), order.Retrying), at(t, doc, outcomes...))
	filed := slices.DeleteFunc(order.Outcomes(), func(o order.Outcome) bool { return !o.NeedsLetter() })
	outcomes[2] = "deadLetter"
	require.Equal(t, words(filed...), at(t, doc, outcomes...))
}

// TestAsyncAPIIsWhatIsStored compares subjects, streams and headers with what
// the queue really wrote.
func TestAsyncAPIIsWhatIsStored(t *testing.T) {
	doc := asyncAPI(t)
	q, nc := startBroker(t, func(*queue.Config) {})
	stored(t, q, visits())
	for channel, c := range map[string]struct{ stream, message string }{
		"results": {"ORDERS_RESULTS", "result"}, "deadLetters": {"ORDERS_DEAD", "deadLetter"},
	} {
		require.Contains(t, at(t, doc, "channels", channel, "description"), "Stream "+c.stream+":")
		seen := make(map[string]bool)
		for _, v := range visits() {
			subject := strings.ReplaceAll(at(t, doc, "channels", channel, "address").(string), "{token}", v.word)
			msg := lastMsg(t, nc, c.stream, subject)
			if msg == nil {
				continue
			}
			for name := range msg.Header {
				seen[name] = true
			}
		}
		documented := keys(t, doc, "components", "messages", c.message, "headers", "properties")
		for _, name := range documented {
			require.True(t, seen[name], "%s: nothing has the header %s", channel, name)
		}
		for name := range maps.Keys(seen) {
			require.True(t, strings.HasPrefix(name, "Nats-") || slices.Contains(documented, name), "%s: header %s is not documented", channel, name)
		}
	}
}
