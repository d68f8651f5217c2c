package client_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/api.txt anew")

// TestTheAPIIsWhatTheFileSays: a change of what others import is seen in a review. Nothing
// of our inner packages is among it.
func TestTheAPIIsWhatTheFileSays(t *testing.T) {
	t.Parallel()
	got := exported(t)
	if *update {
		require.NoError(t, os.WriteFile("testdata/api.txt", []byte(got), 0o644))
	}
	want, err := os.ReadFile("testdata/api.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), got, "the API has changed; write it anew: go test ./client -update")
	require.NotRegexp(t, regexp.MustCompile(`\b(door|queue|settle|order|nats)\.`), got)
}

// TestEachFunctionHasAnExample that runs.
func TestEachFunctionHasAnExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	for _, name := range []string{"Connect", "Client_Submit", "Client_SubmitAll", "Client_Wait", "Client_Outcome", "Client_Outcomes", "Client_Cancel"} {
		require.Contains(t, string(text), "func Example"+name+"()")
	}
	require.Equal(t, 8, strings.Count(string(text), "// Output:"))
	methods := regexp.MustCompile(`(?m)^func \(c \*Client\) ([A-Z]\w*)`).FindAllStringSubmatch(exported(t), -1)
	require.Len(t, methods, 7, "with Close, which every example calls")
}

// exported returns the exported declarations of the package, without their comments.
func exported(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range slices.DeleteFunc(files, func(n string) bool { return strings.HasSuffix(n, "_test.go") }) {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, file)
	}
	pkg, err := doc.NewFromFiles(fset, parsed, "orderpost/client")
	require.NoError(t, err)
	var out bytes.Buffer
	write := func(node any) {
		require.NoError(t, (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 2}).Fprint(&out, fset, node))
		out.WriteString("\n")
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			f.Decl.Body = nil
			write(f.Decl)
		}
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			out.WriteString(v.Decl.Tok.String() + " " + strings.Join(v.Names, ", ") + "\n")
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs(pkg.Funcs)
	for _, typ := range pkg.Types {
		write(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	return out.String()
}
