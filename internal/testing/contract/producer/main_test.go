package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokenAgreesWithTheVectors(t *testing.T) {
	f, err := os.Open("../../../../examples/vectors/subjects.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	checked := 0
	for lines := bufio.NewScanner(f); lines.Scan(); checked++ {
		var v struct{ Name, Subject, Error string }
		var raw struct {
			OrderNo json.RawMessage `json:"order_no"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		require.NoError(t, json.Unmarshal(lines.Bytes(), &raw))
		var orderNo string
		if v.Error == "lone_surrogate" {
			orderNo = "\xed\xa0\xbd" // what CESU-8 makes of it; encoding/json would replace it by U+FFFD
		} else {
			require.NoError(t, json.Unmarshal(raw.OrderNo, &orderNo))
		}
		token, err := Token(orderNo)
		if v.Error != "" {
			require.Error(t, err, v.Name)
			continue
		}
		require.NoError(t, err, v.Name)
		require.Equal(t, v.Subject, "orders.new."+token, v.Name)
	}
	require.Greater(t, checked, 20)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"publish"}, {"publish", "id"}, {"result", "A", "id"}, {"await", "A"}, {"sing", "A"}} {
		require.ErrorIs(t, run(t.Context(), args, os.Getenv, &strings.Builder{}), errUsage)
	}
}
