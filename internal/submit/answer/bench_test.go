package answer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func BenchmarkJudge(b *testing.B) {
	rules, err := LoadRules("../../../examples/rules/code.yaml", Times{time.Second, time.Hour})
	require.NoError(b, err)
	for name, r := range map[string]*Rules{"built-in": nil, "rules": rules} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			judge := Judge{Rules: r}
			for b.Loop() {
				a := Answer{Status: 200, Body: []byte(`{"code":0,"message":"ok","data":{"id":"x"}}`), Complete: true}
				judge.Judgement(&a, 1)
			}
		})
	}
}
