package simulation

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheProtocolNamesItsMutations: docs/protocol.md names every mutation, that of a rule
// in this rule's section, and no mutation that does not exist.
func TestTheProtocolNamesItsMutations(t *testing.T) {
	file, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	text := string(file)
	sections := make(map[string]string)
	for _, section := range strings.Split(text, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for _, m := range Mutations() {
		if body, isRule := sections[m.String()]; isRule {
			require.Contains(t, body, "Mutations: `"+m.String()+"`", "%s does not name its mutation", m)
		}
		require.Contains(t, text, "`"+m.String()+"`", "no rule names the mutation %s", m)
	}
	lists := regexp.MustCompile("Mutations: (`.*)").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, lists)
	for _, list := range lists {
		for _, m := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(list[1], -1) {
			_, err := ParseMutation(m[1])
			require.NoError(t, err)
		}
	}
}
