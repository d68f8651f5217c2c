package answer

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlast "github.com/goccy/go-yaml/ast"

	"orderpost/internal/platform/textfile"
)

const (
	// maxKept is how many members of answers a rules file keeps, and maxKeptText the most bytes of one. Each result has
	// them.
	maxKept, maxKeptText = 10, 200
)

// keptMember is a member of answers that becomes a field of results.
type keptMember struct {
	name string
	path []string // below the body
}

var keptName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// keep reads the section `keep:`; nil = there is none.
func (p *parser) keep(node yamlast.Node) (keep []keptMember) {
	if node == nil {
		return nil
	}
	var text map[string]string
	if err := textfile.UnmarshalNode(node, &text); err != nil {
		p.wrongYAML(nodeLine(node), err)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(text)) {
		path := text[name]
		at := fieldLine(node, name)
		below, found := strings.CutPrefix(path, "body.")
		switch {
		case !keptName.MatchString(name):
			p.wrong(at, "keep: %q is no name: it has up to 40 small letters, digits and _, and begins with a letter", Bounded(name, 60))
		case !found || strings.Contains("."+below+".", ".."):
			p.wrong(at, "keep: %s: %q is no member of the answer, as in body.data.id", name, Bounded(path, 60))
		}
		keep = append(keep, keptMember{name, strings.Split(below, ".")})
	}
	if n := len(keep); n == 0 || n > maxKept {
		p.wrong(nodeLine(node), "keep: it names %d members: name one to %d, since every result has all of them", n, maxKept)
	}
	return keep
}

// Kept returns the members of an answer that the rules keep, by their names; nil = there are none. It leaves out what is no
// text, number, true or false, and what is longer than 200 bytes.
func (r *Rules) Kept(a *Answer) map[string]string {
	if r = r.now(); len(r.keep) == 0 {
		return nil
	}
	if a.parse(); !a.isJSON {
		return nil
	}
	var body any
	exact := json.NewDecoder(bytes.NewReader(a.Body)) // rules see numbers as float64, and the number of an order may be longer
	exact.UseNumber()
	if exact.Decode(&body) != nil {
		return nil
	}
	var out map[string]string
	for _, m := range r.keep {
		at := body
		for _, name := range m.path {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		var text string
		switch v := at.(type) {
		case string:
			text = v
		case json.Number:
			text = v.String()
		case bool:
			text = strconv.FormatBool(v)
		}
		if text == "" || len(text) > maxKeptText {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(r.keep))
		}
		out[m.name] = text
	}
	return out
}
