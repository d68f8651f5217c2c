package importer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mapped(m Mapping) func(*Options) { return func(o *Options) { o.Mapping = m } }

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		name, content, want string
		mapping             Mapping
	}{
		{"text stays as it is", "order_no,timeout,sku,n\n007,30,00012,1.50\n",
			`{"order_no":"007","timeout":30,"sku":"00012","n":"1.50"}`, Mapping{}},
		{"types in the header", "order_no,timeout,a:int,b:number,c:bool,d:json,e:string\nA,30,-5,12.50,TRUE,\"[1, {\"\"x\"\":null}]\",7\n",
			`{"order_no":"A","timeout":30,"a":-5,"b":12.5,"c":true,"d":[1,{"x":null}],"e":"7"}`, Mapping{}},
		{"types given", "order_no,timeout,a\nA,30,5\n", `{"order_no":"A","timeout":30,"a":5}`, Mapping{Types: map[string]Type{"a": TypeInt}}},
		{"dots nest", "order_no,c.name,timeout,c.home.city,d\nA,Eve,30,Oslo,x\n",
			`{"order_no":"A","c":{"name":"Eve","home":{"city":"Oslo"}},"timeout":30,"d":"x"}`, Mapping{}},
		{"renamed", "Nr;Zeit;Artikel:x\nA;30;7\n", `{"order_no":"A","timeout":30,"item.sku":1}`, Mapping{}},
		{"constants", "order_no\nA\n", `{"order_no":"A","c":{"n":3},"channel":"web","timeout":60}`,
			Mapping{Set: map[string]string{"channel": "web", "c.n:int": "3", "timeout": "60"}}},
		{"empty is text", "order_no,timeout,a\nA,30,\n", `{"order_no":"A","timeout":30,"a":""}`, Mapping{}},
		{"empty left out", "order_no,timeout,a,b.c:int\nA,30,,\n", `{"order_no":"A","timeout":30}`, Mapping{Empty: EmptyOmit}},
		{"empty is null", "order_no,timeout,a,b:int\nA,30,,\n", `{"order_no":"A","timeout":30,"a":null,"b":null}`, Mapping{Empty: EmptyNull}},
		{"numbers made", "timeout,a\n30,x\n", `{"timeout":30,"a":"x","order_no":"march-1"}`, Mapping{OrderNoTemplate: "{batch}-{row}"}},
		{"columns of a rejects file are skipped", "order_no,timeout,_row,_column,_code,_message\nA,30,7,2,wrong_type,x\n",
			`{"order_no":"A","timeout":30}`, Mapping{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "renamed" {
				c.mapping.Rename = map[string]string{"Nr": "order_no", "Zeit": "timeout", "Artikel:x": "item.sku"}
				c.mapping.Types = map[string]Type{"item.sku": TypeInt}
				c.want = `{"order_no":"A","timeout":30,"item":{"sku":7}}`
			}
			_, got := bodies(t, openText(t, c.content, mapped(c.mapping), func(o *Options) { o.Batch = "march" }))
			require.Equal(t, []string{c.want}, got)
		})
	}
}

func TestCellsRefused(t *testing.T) {
	for row, want := range map[string]string{
		"A-1,soon,,,":                     `orders.csv:2:2: column timeout: "soon" is not a whole number such as 30`,
		"A-1,030,,,":                      `"030" is not a whole number`,
		"A-1,3.0,,,":                      `"3.0" is not a whole number`,
		"A-1,,,,":                         `"" is not a whole number such as 30; --empty omit`,
		"A-1,30,\"1,5,2\",true,1":         `orders.csv:2:3: column n:number: "1,5,2" is not a number such as 12.5`,
		"A-1,30, 1,true,1":                `" 1" is not a number`,
		"A-1,30,NaN,true,1":               `"NaN" is not a number`,
		"A-1,30,9007199254740993,true,1":  "orders.csv:2:3: n: 9007199254740993 cannot be carried exactly",
		"A-1,30,1,yes,1":                  `orders.csv:2:4: column b:bool: "yes" is not true or false`,
		"A-1,30,1,true,\"1,\"\"x\"\":2\"": `orders.csv:2:5: column j:json: "1,\"x\":2" is not one JSON value`,
		"A-1,30,1,true":                   "orders.csv:2: the row has 4 cells, the header 5",
		"A-1,30,1,true,1,2":               "orders.csv:2: the row has 6 cells, the header 5",
		",30,1,true,1":                    "orders.csv:2:1: order_no: an empty string cannot be an order number",
		" A-1,30,1,true,1":                "has spaces or invisible characters around it",
		"A-1\u00a0,30,1,true,1":           "has spaces or invisible characters around it",
		"\u200bA-1,30,1,true,1":           "has spaces or invisible characters around it",
		"1.2E+12,30,1,true,1":             "orders.csv:2:1: column order_no: \"1.2E+12\" is a number that a spreadsheet has rounded",
		"\"1,23457E+11\",30,1,true,1":     "is a number that a spreadsheet has rounded",
		"4E+15,30,1,true,1":               "is a number that a spreadsheet has rounded",
	} {
		got := refusals(t, openText(t, "order_no,timeout,n:number,b:bool,j:json\n"+row+"\n"))
		require.Contains(t, got, want, row)
		require.Equal(t, 1, strings.Count(got, "orders.csv:"), got)
	}
	for _, fine := range []string{"12E5", "1.2", "+49", "E+12", "1E+", "A 1"} {
		_, got := bodies(t, openText(t, "order_no,timeout\n"+fine+",30\n"))
		require.Len(t, got, 1, fine)
	}
	require.Contains(t, refusals(t, openText(t, `{"order_no":"1.2E+12","timeout":30}`)), "orders.csv:1: column order_no: \"1.2E+12\" is a number")
}

// TestNamesThatPathsQuote: an error of the signing rules names the column, whatever its name
// is.
func TestNamesThatPathsQuote(t *testing.T) {
	require.Contains(t, refusals(t, openText(t, "order_no,timeout,Net price:number,to.Zip code:number\nA-1,30,9007199254740993,1\nA-2,30,1,9007199254740993\n")),
		"orders.csv:2:3: column Net price: ")
	require.Contains(t, refusals(t, openText(t, "order_no,timeout,to.Zip code:number\nA-1,30,9007199254740993\n")), "orders.csv:2:3: column to.Zip code: ")
}

// TestColumnsNamedLikeOurs: a file's own column never vanishes because a results or rejects file
// has one of its name.
func TestColumnsNamedLikeOurs(t *testing.T) {
	require.Contains(t, refusals(t, openText(t, "order_no,timeout,_status,_batch\nA-1,30,urgent,7\n")),
		"orders.csv:1:3: rejects and results files add a column _status, which an import skips, and this file does not have all that they add (_outcome, ")
	require.Contains(t, refusals(t, openText(t, "order_no,timeout,_status\nA-1,30,urgent\n")), "give the column another name, or remove it (--rename _status=status)")
	for _, name := range append(append([]string{}, rejectColumns...), resultColumns...) {
		require.Contains(t, refusals(t, openText(t, "order_no,timeout,"+name+"\nA-1,30,x\n")), "a column "+name+", which an import skips")
		_, got := bodies(t, openText(t, "order_no,timeout,"+name+"\nA-1,30,x\n", mapped(Mapping{Rename: map[string]string{name: name}})))
		require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"` + name + `":"x"}`}, got)
	}
	_, got := bodies(t, openText(t, "order_no,timeout,_id,_Status\nA-1,30,x,y\n"))
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"_id":"x","_Status":"y"}`}, got)
	_, got = bodies(t, openText(t, "_row,_column,order_no,timeout,_message,_code\n2,3,A-1,30,wrong,x\n", mapped(Mapping{Rename: map[string]string{"_message": "note"}})))
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"note":"wrong"}`}, got, "whose order a person changed")
}

func TestMappingRefused(t *testing.T) {
	const content = "order_no,timeout,a\nA,30,x\n"
	for want, m := range map[string]Mapping{
		`there is no column "b" among order_no, timeout, a`: {Rename: map[string]string{"b": "c"}},
		`there is no field "b" among`:                       {Types: map[string]Type{"b": TypeInt}},
		"the field a is there twice":                        {Set: map[string]string{"a": "1"}},
		"order_no must differ from row to row":              {Set: map[string]string{"order_no": "1"}},
		"timestamp is the worker's":                         {Set: map[string]string{"timestamp:int": "1"}},
		`timeout: "soon" is not a whole number`:             {Set: map[string]string{"timeout": "soon"}},
		"the file has a column order_no already":            {OrderNoTemplate: "{row}"},
	} {
		require.Contains(t, refusals(t, openText(t, content, mapped(m))), want)
	}
	for want, m := range map[string]Mapping{
		`type of a: "float" is none of string, int`: {Types: map[string]Type{"a": "float"}},
		"type of order_no: it is always text":       {Types: map[string]Type{"order_no": TypeInt}},
		`empty cells: "skip" is none of`:            {Empty: "skip"},
		"both names must be there":                  {Rename: map[string]string{"a": ""}},
		"without {row} every order":                 {OrderNoTemplate: "X-{batch}"},
		"only {batch} and {row}":                    {OrderNoTemplate: "{date}-{row}"},
	} {
		require.ErrorContains(t, m.Validate(), want)
	}
	require.Contains(t, refusals(t, openText(t, `{"order_no":"A","timeout":30}`, mapped(Mapping{Empty: EmptyOmit}))), "NDJSON rows are orders already")
}

func TestMappingFile(t *testing.T) {
	m, err := ReadMapping("m.yaml", strings.NewReader("types: {qty: int}\nrename: {Nr: order_no}\nset: {channel: web}\nempty: omit\norder_no_template: ''\n"))
	require.NoError(t, err)
	got := m.Merge(Mapping{Types: map[string]Type{"qty": TypeNumber, "b": TypeBool}, Empty: EmptyNull})
	require.Equal(t, Mapping{Types: map[string]Type{"qty": TypeNumber, "b": TypeBool}, Rename: map[string]string{"Nr": "order_no"},
		Set: map[string]string{"channel": "web"}, Empty: EmptyNull}, got)
	m, err = ReadMapping("m.yaml", strings.NewReader("\ufeffset:\n  plz: 01067\n  version: 1.10\n  phone: +49301234\n  hex: 0x1F\nrename: {0815: order_no, 1e3: a}\nempty: null\n"))
	require.NoError(t, err)
	require.Equal(t, Mapping{Set: map[string]string{"plz": "01067", "version": "1.10", "phone": "+49301234", "hex": "0x1F"},
		Rename: map[string]string{"0815": "order_no", "1e3": "a"}, Empty: EmptyNull}, m)
	for text, want := range map[string]string{
		"set:\n  note: null\n":            "m.yaml: [2:9] a text is missing here",
		"empty: omit\n---\nset: {a: b}\n": "m.yaml: [3:4] a second YAML document begins here",
	} {
		_, err = ReadMapping("m.yaml", strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
	_, err = ReadMapping("m.yaml", strings.NewReader("type: {qty: int}\n"))
	require.ErrorContains(t, err, "m.yaml")
	empty, err := ReadMapping("m.yaml", strings.NewReader(""))
	require.NoError(t, err)
	require.True(t, empty.IsZero())
}

// TestFingerprint: another mapping makes other orders of the same bytes, and
// must not pass for the same import.
func TestFingerprint(t *testing.T) {
	const content = "order_no,timeout,a\nA,30,5\n"
	plain := openText(t, content)
	require.Equal(t, plain.Content, plain.Fingerprint)
	require.Equal(t, plain.Fingerprint[:16], plain.Batch)
	seen := map[string]bool{plain.Fingerprint: true}
	for _, change := range []func(*Options){
		mapped(Mapping{Types: map[string]Type{"a": TypeInt}}),
		mapped(Mapping{Empty: EmptyOmit}),
		func(o *Options) { o.Delimiter = ";" },
		func(o *Options) { o.Encoding = UTF8 },
		func(o *Options) { o.Format = FormatCSV },
	} {
		f := openText(t, content, change)
		require.Equal(t, plain.Content, f.Content)
		require.False(t, seen[f.Fingerprint])
		seen[f.Fingerprint] = true
	}
	require.Equal(t, plain.Fingerprint, openText(t, content, func(o *Options) { o.Encoding = EncodingAuto; o.Batch = "x" }).Fingerprint)
}
