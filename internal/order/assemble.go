package order

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendText appends a string in canonical form and returns its unescaped text.
// The form escapes only what JSON requires, in the shortest way (rule 6). A valid
// string without a backslash is already in that form.
func (p *parser) appendText(raw []byte) (text []byte) {
	if bytes.IndexByte(raw, '\\') < 0 {
		p.out = append(p.out, raw...)
		return raw[1 : len(raw)-1]
	}
	// Neither call can fail: the tokenizer has validated the string.
	p.scratch, _ = jsontext.AppendUnquote(p.scratch[:0], raw)
	p.out, _ = jsontext.AppendQuote(p.out, p.scratch)
	return p.scratch
}

func (p *parser) appendNumber(raw []byte) error {
	out, code := appendNumber(p.out, raw)
	if code != "" {
		return refuse(code, p.path(), Clip(string(raw), maxSeen))
	}
	p.out = out
	return nil
}

// keepStamp remembers the body's own timestamp and its position among the fields.
func (p *parser) keepStamp(kind byte, text []byte) {
	p.hasStamp = true
	for _, m := range p.members {
		if m.index == notIndex {
			p.stampRank++
		}
	}
	if kind != '0' {
		return
	}
	if ms, err := strconv.ParseInt(string(text), 10, 64); err == nil && ValidTimestamp(ms) {
		p.timestamp = ms
	}
}

// arrange sorts the members of one object, written from out[base:] on, as
// JavaScript does: first array indexes in ascending order, then the other names in
// their original order (rule 7).
func (p *parser) arrange(members []member, base int) {
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.start, b.start))
	})
	p.spare = append(p.spare[:0], p.out[base:]...)
	p.out = p.out[:base]
	for i, m := range members {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		members[i].start = len(p.out)
		p.out = append(p.out, p.spare[m.start-base:m.end-base]...)
		members[i].end = len(p.out)
	}
}

func (p *parser) nameOf(f field) []byte  { return p.pairs[f.name : f.value-1] }
func (p *parser) valueOf(f field) []byte { return p.pairs[f.value:f.end] }

// order returns the Order of a document that was read without error.
func (p *parser) order() *Order {
	o := &Order{bodyEnd: len(p.out), timestamp: p.timestamp}
	o.stampAt, o.commaBefore, o.commaAfter = p.stampPlace()
	slices.SortFunc(p.fields, func(a, b field) int { return CompareUTF16(p.nameOf(a), p.nameOf(b)) })
	orderNoAt, orderNoEnd := 0, 0
	written := false
	for _, f := range p.fields {
		if !written && CompareUTF16(p.nameOf(f), []byte(FieldTimestamp)) > 0 {
			p.signStamp(o)
			written = true
		}
		if len(p.out) > o.bodyEnd {
			p.out = append(p.out, '&')
		}
		p.out = append(p.out, p.pairs[f.name:f.end]...)
		if f.kind == '"' && string(p.nameOf(f)) == FieldOrderNo {
			orderNoAt, orderNoEnd = len(p.out)-(f.end-f.value), len(p.out)
		}
	}
	if !written {
		p.signStamp(o)
	}
	o.text = string(p.out)
	o.orderNo = o.text[orderNoAt:orderNoEnd]
	return o
}

// signStamp writes the timestamp's name to the string to sign.
func (p *parser) signStamp(o *Order) {
	if len(p.out) > o.bodyEnd {
		p.out = append(p.out, '&')
	}
	p.out = append(p.out, "timestamp="...)
	o.signSplit = len(p.out)
}

// stampPlace returns where the timestamp belongs in the canonical body: at its old
// position among the fields that are not array indexes, or at the end if the body
// had none.
func (p *parser) stampPlace() (at int, commaBefore, commaAfter bool) {
	if p.hasStamp {
		rank := 0
		for _, m := range p.members {
			if m.index != notIndex {
				continue
			}
			if rank == p.stampRank {
				return m.start, false, true
			}
			rank++
		}
	}
	return len(p.out) - 1, len(p.members) > 0, false
}
