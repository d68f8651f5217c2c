package worker

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// check --answer judges as a worker would that has seen no answer yet: the evidence
// counts, and what is believed without it is told.
func TestCheckAnswerWeighsTheEvidence(t *testing.T) {
	for _, c := range []struct {
		status, orderNo, answer string
		want                    []string // in the text
		verdict                 string
	}{
		{"409", "", `{"message":"order was NOT created"}`, []string{"status 409, but it says that the order was not created", "is held: "}, "unsure"},
		{"409", "", `{"message":"order exists"}`, []string{"accepted: ", "goes on"}, "duplicate"},
		{"200", "", `{"id":1}`, []string{"taken for accepted without evidence"}, "accepted"},
		{"200", "A-1", `{"order_no":"A-1"}`, []string{"goes on"}, "accepted"},
		{"200", "A-1", `{"order_no":"B-1"}`, []string{"is held: ", "about another order"}, "unsure"},
		{"303", "", `{}`, []string{"is held: ", "ORDERPOST_API_URL"}, "unsure"},
		{"407", "", ``, []string{"a proxy on the way asks for credentials"}, "retry"},
	} {
		run := func(more ...string) string {
			var out bytes.Buffer
			cmd := newCheckCommand(map[string]string{})
			cmd.SetIn(strings.NewReader(c.answer))
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"--answer", "-", "--status", c.status, "--order-no", c.orderNo}, more...))
			require.NoError(t, cmd.Execute())
			return out.String()
		}
		text := run()
		for _, want := range c.want {
			require.Contains(t, text, want)
		}
		var v struct{ Verdict, Note string }
		require.NoError(t, json.Unmarshal([]byte(run("--json")), &v, json.MatchCaseInsensitiveNames(true)))
		require.Equal(t, c.verdict, v.Verdict, text)
		require.Equal(t, strings.Contains(text, "without evidence"), v.Note != "")
	}
}
