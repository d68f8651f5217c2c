package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// beside lists the statuses of operations whose cause cannot be made from outside the
// door's package, and the tests there that make it.
var beside = map[string]string{
	"submit 408":   "TestBodiesThatDoNotArrive",
	"document 503": "TestTooManyConnections",
	"live 503":     "TestTooManyConnections",
	"import 408":   "TestParametersOfAnImport",
	"import 503":   "TestRefusalsAreHeard",

	"submit 500":         "TestAPanic",
	"cancel 500":         "TestAPanic",
	"outcome 500":        "TestAPanic",
	"outcomes 500":       "TestAPanic",
	"import-state 500":   "TestAPanic",
	"import-cancel 500":  "TestAPanic",
	"import-results 500": "TestAPanic",

	"submit 504":  "TestAnUnconfirmedOrder",
	"outcome 504": "TestABrokerThatDoesNotAnswer",
	"cancel 504":  "TestABrokerThatDoesNotAnswer",
}

// coverage collects the statuses that exchanges have had, by operation: "submit 201".
type coverage struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (c *coverage) see(pair string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	c.seen[pair] = true
}

// whole fails for every status in the document that no exchange had.
func (c *coverage) whole(t *testing.T, doc *openapi3.T) {
	t.Helper()
	var missing []string
	for _, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				pair := operation.OperationID + " " + status
				if c.seen[pair] {
					continue
				}
				if test := beside[pair]; test == "" || !slices.Contains(testsBeside(t), test) {
					missing = append(missing, pair)
				}
			}
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "statuses of docs/openapi.yaml without a test")
}

// testsBeside returns the names of the tests of internal/gateway.
func testsBeside(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../internal/gateway/*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, files, fs.ErrNotExist)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
