package submit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkJudge(b *testing.B) {
	rules, err := LoadRules("../../../examples/rules/code.yaml")
	require.NoError(b, err)
	for name, r := range map[string]*Rules{"built-in": nil, "rules": rules} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a := answer{status: 200, body: []byte(`{"code":0,"message":"ok","data":{"id":"x"}}`), complete: true}
				r.judge(&a, 1)
			}
		})
	}
}
