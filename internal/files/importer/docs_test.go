package importer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// documentedCodes lists the codes of an import's own checks, in the document's order.
var documentedCodes = []Code{CodeCells, CodeQuote, CodeEncoding, CodeType, CodeDuplicate, CodePadded, CodeExcel, CodeShown, CodeError, CodeRounded, CodeDate, CodeInvisible,
	CodeApostrophe, CodeQuoted, CodeNoOrder, CodeComma, CodeThousands, CodeEdit, CodeUncalculated, CodeTime, CodeSchema, CodeTrailer, CodeHeader}

// TestDocs: docs/csv.md names every code, column and outcome that there is, and
// no code that there is not.
func TestDocs(t *testing.T) {
	content, err := os.ReadFile("../../../docs/csv.md")
	require.NoError(t, err)
	text := string(content)
	_, rest, found := strings.Cut(text, "<!-- codes:begin -->\n| code | what is wrong |\n|---|---|\n")
	require.True(t, found)
	table, _, found := strings.Cut(rest, "<!-- codes:end -->")
	require.True(t, found)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	require.Len(t, lines, len(documentedCodes))
	for i, code := range documentedCodes {
		require.True(t, strings.HasPrefix(lines[i], "| `"+string(code)+"` | "), "%s: %s", code, lines[i])
	}
	require.Contains(t, text, strings.Join(resultColumns, ","))
	for _, o := range order.Outcomes() {
		require.Contains(t, text, "`"+o.String()+"`")
	}
	for _, word := range []string{outcomePending, outcomeConflict, outcomeNothing, existedBefore} {
		require.Contains(t, text, "`"+word+"`")
	}
	for _, typ := range types {
		require.Contains(t, text, "`"+string(typ)+"`")
	}
}
