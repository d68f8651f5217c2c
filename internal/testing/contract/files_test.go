package contract

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	schemas "orderpost/docs/schema"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

// yamlOf reads a YAML document as an editor hands it to its schema.
func yamlOf(t *testing.T, text string) any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err, text)
	return loaded(t, string(asJSON))
}

// readers are the files that users write, and what reads them in the end.
var readers = map[string]func(text string) error{
	"rules": func(text string) error { _, err := answer.ParseRules("rules.yaml", []byte(text)); return err },
	"mapping": func(text string) error {
		m, err := importer.ReadMapping("mapping.yaml", strings.NewReader(text))
		if err == nil {
			err = m.Validate()
		}
		return err
	},
}

var yamlBlock = regexp.MustCompile("(?m)^```yaml\n((?s:.*?))^```$")

// TestExampleFilesAreValid: the examples and the blocks of the documents can be
// used, and their schema agrees.
func TestExampleFilesAreValid(t *testing.T) {
	texts := map[string][]string{"rules": nil, "mapping": nil}
	for name, pattern := range map[string]string{"rules": "examples/rules/*.yaml", "mapping": "examples/import/*.mapping.yaml"} {
		paths, err := filepath.Glob(root + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[name] = append(texts[name], string(text))
		}
	}
	for _, m := range yamlBlock.FindAllStringSubmatch(read(t, "docs/rules.md"), -1) {
		if strings.HasPrefix(m[1], "rules:") {
			texts["rules"] = append(texts["rules"], m[1])
		}
	}
	require.Greater(t, len(texts["rules"]), 4)
	for name, list := range texts {
		s := schema(t, name)
		for _, text := range list {
			require.NoError(t, readers[name](text), text)
			require.NoError(t, s.Validate(yamlOf(t, text)), text)
		}
	}
}

// TestFilesAreRefusedBySchemaAndReader: an editor marks what the program would
// refuse.
func TestFilesAreRefusedBySchemaAndReader(t *testing.T) {
	for name, list := range map[string][]string{
		"rules": {
			"ruls: []", "rules: []", "rules:\n- verdict: accepted", "rules:\n- when: status == 200",
			"rules:\n- {when: status == 200, verdict: acepted}", "rules:\n- {when: status == 200, verdict: accepted, finall: true}",
			"rules:\n- {when: status == 200, verdict: accepted, final: true}", "rules:\n- {when: status == 200, verdict: rejected, throttle: true}",
			"rules:\n- {when: status == 200, verdict: accepted, time_error: true}", "rules:\n- {when: status == 200, verdict: accepted, wait: 5s}",
			"rules:\n- {when: status == 200, verdict: retry, wait: 5}", "rules:\n- {when: status == 200, verdict: retry, wait: -5s}",
			"rules:\n- {when: status == 200, verdict: retry, throttle: often}",
		},
		"mapping": {
			"typos: {a: int}", "types: {a: integer}", "types: {order_no: int}", "empty: drop", "order_no_template: '{batch}'", "order_no_template: '{row}{line}'",
			"trailer: {rows: 2}", "trailer: {value: T, row: 2}", "trailer: T", "rename: {a: ''}", "accept: {order_no: [excel]}", "accept: {order_no: excel_date}",
		},
	} {
		s := schema(t, name)
		for _, text := range list {
			require.Error(t, readers[name](text), "%s takes %s", name, text)
			require.Error(t, s.Validate(yamlOf(t, text)), "the schema of %s takes %s", name, text)
		}
	}
	for name, list := range map[string][]string{
		"rules": {"rules:\n- {when: status == 404, verdict: retry, wait: 1m30s, throttle: true, final: true, reason: 404, name: x, other_order_no: true}"},
		"mapping": {"{}", "types: {qty: int, order_no: string}\nrename: {Artikel: sku}\nset: {currency: EUR, 'n:int': 5}\nempty: omit\n" +
			"order_no_template: '{batch}-{row}'\naccept: {order_no: [excel_date, invisible]}\ntrailer: {value: 99, member: type, rows: 2, sums: {amount: total}}"},
	} {
		for _, text := range list {
			require.NoError(t, readers[name](text), text)
			require.NoError(t, schema(t, name).Validate(yamlOf(t, text)), text)
		}
	}
}

// TestFileSchemasNameEverything: every key that a file may have, and every word
// of the closed sets.
func TestFileSchemasNameEverything(t *testing.T) {
	mapping, rules := schemaText(t, "mapping"), schemaText(t, "rules")
	require.Equal(t, jsonNames(reflect.TypeFor[importer.Mapping]()), keys(t, mapping, "properties"))
	require.Equal(t, words(order.Verdicts()...), at(t, rules, "properties", "rules", "items", "properties", "verdict", "enum"))
	var questions []any
	for _, q := range importer.Questions() {
		questions = append(questions, string(q))
	}
	require.Equal(t, questions, at(t, mapping, "properties", "accept", "additionalProperties", "items", "enum"))
	_, table, found := strings.Cut(read(t, "docs/rules.md"), "\n| field | meaning |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	require.Equal(t, documented, keys(t, rules, "properties", "rules", "items", "properties"))
}

// TestSchemasListTheWords: the counts of an import's rows, and of replayed letters.
func TestSchemasListTheWords(t *testing.T) {
	var fates []any
	for _, f := range importer.Fates() {
		fates = append(fates, string(f))
	}
	var rows []any
	for _, w := range importer.Words() {
		rows = append(rows, w)
	}
	for _, name := range []string{"remembered", "status"} {
		require.Equal(t, fates, at(t, schemaText(t, name), "properties", "counts", "propertyNames", "enum"), name)
	}
	require.Equal(t, fates, at(t, schemaText(t, "import"), "properties", "fates", "propertyNames", "enum"))
	for _, name := range []string{"outcomes", "status"} {
		require.Equal(t, rows, at(t, schemaText(t, name), "properties", "outcomes", "propertyNames", "enum"), name)
	}
	require.Equal(t, append(words(order.Outcomes()...), order.Retrying), at(t, schemaText(t, "audit"), "properties", "outcomes", "propertyNames", "enum"))
}

// TestEverySchemaIsOne: it has a title for its list, and compiles together with
// those that it refers to.
func TestEverySchemaIsOne(t *testing.T) {
	names := schemas.Names()
	require.True(t, slices.IsSorted(names))
	for _, name := range names {
		require.NotEmpty(t, schemas.Title(name), name)
		schema(t, name)
	}
}
