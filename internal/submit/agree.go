package submit

import (
	"bytes"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// agreeing are the texts of the members of a 2xx body that speak for
// acceptance; see contradicts.
var agreeing = map[string][]string{
	"code":    {"0", "200", `"0"`, `"200"`},
	"errno":   {"0", "200", `"0"`, `"200"`},
	"success": {"true", `"true"`, "1"},
	"error":   {"null"},
}

type agreement struct {
	input bytes.Buffer
	dec   jsontext.Decoder
}

var agreements = sync.Pool{New: func() any { return new(agreement) }}

// agrees says whether a body certainly is a JSON object in which nothing speaks
// against acceptance. It builds no values; no is only that it has to be looked
// at closely.
func agrees(body []byte) bool {
	a := agreements.Get().(*agreement)
	defer agreements.Put(a)
	a.input = *bytes.NewBuffer(body)
	a.dec.Reset(&a.input)
	ok := a.object() && len(bytes.Trim(body[a.dec.InputOffset():], " \t\r\n")) == 0
	a.input = bytes.Buffer{} // the body is the caller's again
	a.dec.Reset(&a.input)
	return ok
}

func (a *agreement) object() bool {
	if t, err := a.dec.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for a.dec.PeekKind() == '"' {
		name, err := a.dec.ReadValue()
		if err != nil || bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		want, asked := agreeing[string(name[1:len(name)-1])]
		value, err := a.dec.ReadValue()
		if err != nil {
			return false
		}
		if asked && !slices.ContainsFunc(want, func(w string) bool { return w == string(value) }) {
			return false
		}
	}
	_, err := a.dec.ReadToken() // the }
	return err == nil
}
