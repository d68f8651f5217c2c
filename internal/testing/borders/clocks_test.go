package borders

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compareTimes are the functions of the packages that decide about orders which compare two times, by
// the row of the table in docs/protocol.md ("What may a clock decide?") that says why a clock may do
// that there. "" = both times are of the process's own, of monotonic clocks, or shown to people.
var compareTimes = map[string]string{
	"fleet/absent.go Absent":             "",
	"fleet/announce.go announce":         "presence, leases, shares, throttles",
	"fleet/announce.go announceThrottle": "presence, leases, shares, throttles",
	"fleet/clock.go noteClocks":          "",
	"fleet/door.go isThere":              "",
	"fleet/door.go rate":                 "",
	"fleet/lease.go Held":                "presence, leases, shares, throttles",
	"fleet/lease.go Keep":                "",
	"fleet/lease.go expired":             "presence, leases, shares, throttles",
	"fleet/member.go reads":              "presence, leases, shares, throttles",
	"fleet/nothingsent.go nobody":        "",
	"fleet/nothingsent.go Stopped":       "",
	"fleet/obey.go holdIsOver":           "a person's hold",
	"fleet/presence.go Living":           "presence, leases, shares, throttles",
	"fleet/share.go expired":             "presence, leases, shares, throttles",
	"fleet/share.go nextTerm":            "presence, leases, shares, throttles",
	"fleet/view.go age":                  "",
	"order/merge.go joinHistory":         "an open note, `not_before`",
	"order/lane.go LongPast":             "`Order-Not-Before`, `Order-Deadline`",
	"order/lane.go MissedDeadline":       "`Order-Not-Before`, `Order-Deadline`",
	"order/lane.go ParseNotBefore":       "`Order-Not-Before`, `Order-Deadline`",
	"settle/trim.go take":                "",
	"settle/check.go broughtBack":        "`enqueued_at` of a record, a conflict, a letter",
	"settle/handler.go run":              "`Order-Lookup-Until`",
	"settle/check.go classifyUnsettled":  "`Order-Not-Before`, `Order-Deadline`",
	"settle/claim.go age":                "a claim",
	"settle/claim.go vouch":              "AckWait, the delay of a NAK",
	"settle/move.go MoveUnderWay":        "",
	"settle/move.go leaveWaiting":        "`Order-Not-Before`, `Order-Deadline`",
	"settle/waits.go Look":               "AckWait, the delay of a NAK",
	"settle/waits.go waitsForItsTime":    "`Order-Not-Before`, `Order-Deadline`",
	"settle/replay.go late":              "`Order-Not-Before`, `Order-Deadline`",
	"settle/sweep.go Sweep":              "the time of a sweep",
	"settle/intent.go WaitingTime":       "`Order-Not-Before`, `Order-Deadline`",
	"settle/lookup.go known":             "`absent_for`",
	"settle/waits.go left":               "an open note, `not_before`",
	"settle/worker.go graceLeft":         "a claim",
}

// TestEachComparisonOfTimesIsInTheTable: a time orders nothing of which the truth depends (R6). Whoever
// compares two times says here which row of the table allows it.
func TestEachComparisonOfTimesIsInTheTable(t *testing.T) {
	found := make(map[string]bool)
	for _, pkg := range []string{"order", "settle", "fleet"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range parsed.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && comparesTimes(call) {
						found[path.Join(pkg, filepath.Base(file))+" "+fn.Name.Name] = true
					}
					return true
				})
			}
		}
	}
	text, err := fs.ReadFile(os.DirFS(filepath.Join("..", "..", "..", "docs")), "protocol.md")
	require.NoError(t, err)
	var names []string
	for name, row := range compareTimes {
		names = append(names, name)
		if row != "" {
			require.Contains(t, string(text), "\n| "+row+" |", "%s: the table has no such row", name)
		}
	}
	var have []string
	for name := range found {
		have = append(have, name)
	}
	slices.Sort(names)
	slices.Sort(have)
	require.Equal(t, names, have)
}

// comparesTimes reports whether a call is one of a method of time.Time that compares it, or of
// time.Since and time.Until. The method After of positions has two arguments.
func comparesTimes(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	on, _ := sel.X.(*ast.Ident)
	switch name := sel.Sel.Name; {
	case on != nil && on.Name == "time":
		return name == "Since" || name == "Until"
	case on != nil && (on.Name == "cmp" || on.Name == "strings" || on.Name == "bytes"):
		return false
	default:
		return len(call.Args) == 1 && (name == "Before" || name == "After" || name == "Sub" || name == "Compare")
	}
}
