package borders

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// repository is what the documents and comments talk about.
type repository struct {
	files    []string            // relative to the root, with slashes
	comments map[string]string   // of each Go file
	declared map[string][]string // the names that a Go file declares, methods included
	docs     map[string]string   // Markdown
}

// readRepository is what a reader opens.
func readRepository(t *testing.T) *repository {
	t.Helper()
	r, err := opened()
	require.NoError(t, err)
	require.Greater(t, len(r.comments), 300)
	require.Greater(t, len(r.docs), 15)
	return r
}

// opened reads the repository once for all tests. It leaves out hidden folders, binaries and data.
var opened = sync.OnceValues(func() (*repository, error) {
	r := &repository{comments: make(map[string]string), declared: make(map[string][]string), docs: make(map[string]string)}
	return r, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		r.files = append(r.files, name)
		switch path.Ext(name) {
		case ".go":
			return r.readGo(name)
		case ".md":
			text, err := os.ReadFile(filepath.Join(root, name))
			r.docs[name] = string(text)
			return err
		}
		return nil
	})
})

func (r *repository) readGo(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, group := range file.Comments {
		for _, c := range group.List {
			text.WriteString(c.Text + "\n")
		}
	}
	r.comments[name] = text.String()
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			r.declared[name] = append(r.declared[name], d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					r.declared[name] = append(r.declared[name], s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						r.declared[name] = append(r.declared[name], n.Name)
					}
				}
			}
		}
	}
	return nil
}

// has says whether a file that somebody named from a place exists: relative to
// the root, to that place, or by the end of its path.
func (r *repository) has(from, name string) bool {
	name = path.Clean(name)
	return slices.ContainsFunc(r.files, func(file string) bool {
		return file == name || file == path.Join(path.Dir(from), name) || strings.HasSuffix(file, "/"+name)
	})
}

var (
	fileName  = regexp.MustCompile(`[A-Za-z0-9_./-]*[A-Za-z0-9_]\.(?:go|md)\b`)
	ruleName  = regexp.MustCompile(`\bR\d+\b`)
	rule      = regexp.MustCompile(`(?m)^## (R\d+)\n((?s:.*?))(?:\n## |\z)`)
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeLink  = regexp.MustCompile("\\[`([A-Za-z]+)`\\]\\(([^)]+\\.go)\\)")
	testName  = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	namedTest = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor  = regexp.MustCompile("[^a-z0-9 _-]")
	codeBlock = regexp.MustCompile("(?m)^ *```(?s:.*?)^ *```$")
)

// notOurs are libraries that are called like files.
var notOurs = []string{"nats.go"}

// TestReadingOrdersAreWhole: these packages name each of their files in doc.go, where a reader
// begins.
func TestReadingOrdersAreWhole(t *testing.T) {
	for _, dir := range []string{"settle", "queue", "submit", "submit/answer", "submit/http1", "worker", "gateway/door", "fleet", "fleet/imports", "files/folder", "gateway", "files/importer", "audit/journal", "deadletter", "notify", "ops", "files/uploads",
		"status", "audit", "console", "order", "worker/feed", "cli/service", "../proof/oracle", "../proof/powercut", "../proof/simulation"} {
		doc, err := os.ReadFile(filepath.Join("..", "..", dir, "doc.go"))
		require.NoError(t, err)
		named := regexp.MustCompile(`[a-z_]+\.go\b`).FindAllString(string(doc), -1)
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			if name := filepath.Base(f); name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
				require.Contains(t, named, name, "internal/%s/doc.go does not name it", dir)
			}
		}
		for _, name := range named {
			require.FileExists(t, filepath.Join("..", "..", dir, name), "internal/%s/doc.go names it", dir)
		}
	}
}

// TestEveryNamedFileExists: documents and comments name Go files and documents that exist.
func TestEveryNamedFileExists(t *testing.T) {
	r := readRepository(t)
	check := func(from, text string) {
		for _, name := range fileName.FindAllString(text, -1) {
			if !strings.HasPrefix(name, "//") && !slices.Contains(notOurs, name) && !r.has(from, strings.TrimLeft(name, "/")) {
				t.Errorf("%s names %s, which does not exist", from, name)
			}
		}
	}
	for from, text := range r.comments {
		check(from, text)
	}
	for from, text := range r.docs {
		check(from, text)
	}
}

// TestEveryAnchorAndFunctionExists: a link's anchor is a heading, and a linked file
// declares the function or type by which the link is called. (That linked files
// exist is TestDocuments' to check.)
func TestEveryAnchorAndFunctionExists(t *testing.T) {
	r := readRepository(t)
	for from, text := range r.docs {
		for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			target, anchor, found := strings.Cut(m[1], "#")
			if !found || strings.Contains(m[1], "://") {
				continue
			}
			to := from
			if target != "" {
				to = path.Join(path.Dir(from), target)
			}
			require.True(t, slices.Contains(anchors(r.docs[to]), anchor), "%s links to %s, which is no heading", from, m[1])
		}
		for _, m := range codeLink.FindAllStringSubmatch(text, -1) {
			file := path.Join(path.Dir(from), m[2])
			require.True(t, slices.Contains(r.declared[file], m[1]), "%s: %s does not declare %s", from, file, m[1])
		}
	}
}

// anchors are those that GitHub gives to a document's headings.
func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(plain, " ", "-"))
	}
	return out
}

// TestEveryRuleIsStatedKeptAndTested: docs/protocol.md has each rule that a comment
// cites, with the code that keeps it. A test is named after each rule, and documents and
// comments name tests that exist. (That the mutations exist that it names is the simulation's to check.)
func TestEveryRuleIsStatedKeptAndTested(t *testing.T) {
	r := readRepository(t)
	text := r.docs["docs/protocol.md"]
	rules := make(map[string]string)
	for rest := text; ; {
		at := rule.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		rules[rest[at[2]:at[3]]] = rest[at[4]:at[5]]
		rest = rest[at[5]:]
	}
	require.Len(t, rules, 15)
	var tests []string
	for file, names := range r.declared {
		if strings.HasSuffix(file, "_test.go") {
			tests = append(tests, names...)
		}
	}
	for name, body := range rules {
		_, kept, found := strings.Cut(body, "\nKept by: ")
		require.True(t, found, "%s does not say what keeps it", name)
		require.NotEmpty(t, codeLink.FindAllString(kept, -1), "%s: no code keeps it", name)
		require.Regexp(t, "\\bTest"+name+"[A-Z]", strings.Join(tests, " "), "%s: no test is named after it", name)
		require.Contains(t, body, "\nWithout it: ", "%s: which schedule does it answer?", name)
	}
	for from, doc := range r.docs {
		for _, m := range testName.FindAllStringSubmatch(doc, -1) {
			require.True(t, slices.Contains(tests, m[1]), "%s names %s, which does not exist", from, m[1])
		}
	}
	known := strings.Join(tests, " ") + " "
	cited := 0
	for from, comments := range r.comments {
		for _, m := range namedTest.FindAllString(comments, -1) {
			if !strings.Contains(known, m) { // a beginning stands for several
				t.Errorf("a comment of %s names %s, which does not exist", from, m)
			}
		}
		for _, name := range ruleName.FindAllString(comments, -1) {
			require.True(t, rules[name] != "", "%s cites %s, which docs/protocol.md does not state", from, name)
			cited++
		}
	}
	require.Greater(t, cited, 50)
}

// TestTablesAreWhole: an empty line or a comment ends a table, and what follows is no table
// without a header of its own.
func TestTablesAreWhole(t *testing.T) {
	for from, text := range readRepository(t).docs {
		before, rows := "", 0
		for line := range strings.Lines(codeBlock.ReplaceAllString(text, "")) {
			if !strings.HasPrefix(line, "|") {
				rows = 0
				continue
			}
			rows++
			if rows == 2 {
				require.True(t, strings.HasPrefix(line, "|--"), "%s: rows without a header: %s", from, before)
			}
			before = line
		}
	}
}

// TestEveryPackageHasASentence: the table of docs/architecture.md names each room.
func TestEveryPackageHasASentence(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	for _, folder := range []string{"internal", "proof"} {
		entries, err := os.ReadDir(filepath.Join(root, folder))
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() && e.Name() != "cmd" {
				require.Regexp(t, "`"+folder+"/"+e.Name()+"[`/]", string(text))
			}
		}
	}
}
