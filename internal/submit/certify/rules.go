package certify

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"orderpost/internal/submit/answer"
)

// rule is one that the answers led to.
type rule struct {
	name, verdict string
	more          []string // further fields
	from          []*seen
	alike         []*seen // answers that may have the same rule
	when          string
}

// codes are the names of members whose value tells an answer's kind, best first, in lower case without separators.
var codes = []string{"code", "errorcode", "errcode", "errno", "retcode", "ret", "rc", "resultcode", "subcode", "error", "type", "status", "state", "result", "success", "ok"}

// member is a scalar in a JSON body, or a text in a list at its top.
type member struct {
	path string // as a rule writes it
	name string
	text string // its value as a rule writes it
	str  string // the value, if it is a string
	list bool
}

// isCode reports whether the member is a code or a word, by its name and its value.
func (m *member) isCode() bool {
	return slices.Contains(codes, m.name) && !m.list && len(m.text) < 40 && !strings.Contains(m.str, " ")
}

// object returns the members at the top of a body; nil = it is no object.
func object(a *answer.Answer) (top map[string]any) {
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.UseNumber()
	if d.Decode(&top) != nil {
		return nil
	}
	return top
}

// members lists the scalars of a body, at most three objects deep, by path.
func members(a *answer.Answer) (all []member) {
	var walk func(path string, object map[string]any, depth int)
	walk = func(path string, object map[string]any, depth int) {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			m := member{path: path + "." + name, name: strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))}
			if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) }) {
				m.path = path + "[" + strconv.Quote(name) + "]"
			}
			switch v := object[name].(type) {
			case map[string]any:
				if depth < 3 {
					walk(m.path, v, depth+1)
				}
				continue
			case []any:
				if len(v) == 0 {
					continue
				}
				text, is := v[0].(string)
				if m.list = is; !is {
					continue
				}
				m.str = text
			case string:
				m.str, m.text = v, strconv.Quote(v)
			case json.Number:
				m.text = v.String()
			case bool:
				m.text = strconv.FormatBool(v)
			default:
				continue
			}
			all = append(all, m)
		}
	}
	walk("body", object(a), 1)
	return all
}

// keys lists the members at the top of a body.
func keys(a *answer.Answer) []string { return slices.Sorted(maps.Keys(object(a))) }

// beginning is the part of a text that is the same for other orders: up to the first digit, quote or order number.
func beginning(text, orderNo string) string {
	if at := strings.Index(text, orderNo); at >= 0 {
		text = text[:at]
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return unicode.IsDigit(r) || r == '"' || !unicode.IsPrint(r) }); at >= 0 {
		text = text[:at]
	}
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:60])
	}
	return strings.TrimRight(text, " :+-(")
}

// minBeginning is the shortest beginning of a text that tells something.
const minBeginning = 6

// conditions lists conditions that an answer fulfils, the narrowest first: an API may use one code for several things, of which
// only one was seen. Success is one thing, so wide says that the code comes first.
func conditions(s *seen, wide bool) (list []string) {
	base := "status == " + strconv.Itoa(s.answer().Status)
	all := members(s.answer())
	var coded, texts []string
	for _, name := range codes {
		for _, m := range all {
			if m.name == name && m.isCode() && m.str != s.no {
				coded = append(coded, m.path+" == "+m.text)
			}
		}
	}
	for _, m := range all {
		begin := beginning(m.str, s.no)
		switch {
		case len(begin) < minBeginning || m.isCode():
		case m.list:
			texts = append(texts, "any("+m.path+", # startsWith "+strconv.Quote(begin)+")")
		default:
			texts = append(texts, m.path+" startsWith "+strconv.Quote(begin))
		}
	}
	one := func(tests []string) {
		for _, test := range tests {
			list = append(list, base+" && "+test)
		}
	}
	if wide {
		one(coded)
	}
	for _, code := range coded {
		for _, text := range texts {
			list = append(list, base+" && "+code+" && "+text)
		}
	}
	one(texts)
	one(coded)
	for _, name := range keys(s.answer()) {
		list = append(list, base+" && "+strconv.Quote(name)+" in body")
	}
	begin := beginning(string(s.answer().Body), s.no)
	switch {
	case len(s.answer().Body) == 0:
		list = append(list, base+` && text == ""`)
	case all == nil && len(begin) >= minBeginning:
		list = append(list, base+" && text startsWith "+strconv.Quote(begin))
	}
	return list
}

// matcher compiles a condition, and tells for which answers it holds.
func matcher(when string) func(*seen) bool {
	rules, err := answer.ParseRules("", []byte("rules: [{verdict: unsure, when: "+quote(when)+"}]"))
	return func(s *seen) bool { return err == nil && rules.Judge(s.answer(), 1).Rule > 0 }
}

// choose finds a condition that every answer of the rule fulfils, and none of the others.
func (r *rule) choose(others ...*seen) bool {
	for _, r.when = range conditions(r.from[0], r.verdict == "accepted") {
		matches := matcher(r.when)
		if !slices.ContainsFunc(r.from, func(s *seen) bool { return !matches(s) }) && !slices.ContainsFunc(others, matches) {
			return true
		}
	}
	return false
}

// yaml writes the rule as an entry of a rules file, below the answer that it was made from. Each line begins with before.
func (r *rule) yaml(before string, shown func(*seen) string) string {
	lines := []string{"# " + r.from[0].what + ": " + shown(r.from[0]), "- name: " + quote(r.name), "  when: " + quote(r.when), "  verdict: " + r.verdict}
	for _, field := range r.more {
		lines = append(lines, "  "+field)
	}
	return before + strings.Join(lines, "\n"+before) + "\n"
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
