package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/contract/producer"
)

// vector is one line of examples/vectors/subjects.jsonl. OrderNo is JSON text,
// since Go has no string for half a surrogate pair.
type vector struct {
	Name    string          `json:"name"`
	OrderNo json.RawMessage `json:"order_no"`
	Subject string          `json:"subject"`
	Error   order.Code      `json:"error"`
}

const newPrefix = "orders.new."

func vectors(t *testing.T) []vector {
	t.Helper()
	var out []vector
	for line := range strings.Lines(read(t, "examples/vectors/subjects.jsonl")) {
		var v vector
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		require.True(t, (v.Subject == "") != (v.Error == ""), v.Name)
		out = append(out, v)
	}
	require.Greater(t, len(out), 20)
	return out
}

// TestVectorsAgreeWithTheWorker: each order_no goes through the parser that a
// worker reads bodies with.
func TestVectorsAgreeWithTheWorker(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			parsed, err := order.Parse(fmt.Appendf(nil, `{"order_no":%s,"timeout":30}`, v.OrderNo))
			if v.Error != "" {
				var refused *order.Error
				require.True(t, errors.As(err, &refused), "it is not refused")
				require.Equal(t, v.Error, refused.Code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, v.Subject, newPrefix+order.Token(parsed.OrderNo()))
			back, err := order.OrderNoFromToken(strings.TrimPrefix(v.Subject, newPrefix))
			require.NoError(t, err)
			require.Equal(t, parsed.OrderNo(), back)
		})
	}
}

// TestGoEncoderAgreesWithTheVectors: that of a program which knows the document alone.
func TestGoEncoderAgreesWithTheVectors(t *testing.T) {
	for _, v := range vectors(t) {
		orderNo := "\xed\xa0\xbd" // what CESU-8 makes of half a surrogate pair; encoding/json would replace it by U+FFFD
		if v.Error != order.CodeLoneSurrogate {
			require.NoError(t, json.Unmarshal(v.OrderNo, &orderNo))
		}
		token, err := producer.Token(orderNo)
		if v.Error != "" {
			require.Error(t, err, v.Name)
			continue
		}
		require.NoError(t, err, v.Name)
		require.Equal(t, v.Subject, newPrefix+token, v.Name)
	}
}

// TestNodeEncoderAgreesWithTheVectors runs the example's own file.
func TestNodeEncoderAgreesWithTheVectors(t *testing.T) {
	vm := goja.New()
	program := "(function () { const module = {};" + read(t, "examples/producers/node/subject.js") + "\nreturn module.exports.token; })()"
	exported, err := vm.RunString(program)
	require.NoError(t, err)
	token, ok := goja.AssertFunction(exported)
	require.True(t, ok)
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			// JSON text is a JavaScript literal. goja's JSON.parse would replace half a surrogate pair.
			orderNo, err := vm.RunString("(" + string(v.OrderNo) + ")")
			require.NoError(t, err)
			have, err := token(goja.Undefined(), orderNo)
			if v.Error != "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, v.Subject, newPrefix+have.String())
		})
	}
}
