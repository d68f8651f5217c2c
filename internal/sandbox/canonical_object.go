package sandbox

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
)

// linearNames is the number of names up to which unique compares them one by one.
// Beyond that it uses a map. A hostile body of 100,000 names would otherwise take
// quadratic time.
const linearNames = 16

// object reads one object. It removes the members of a nested object from the stack
// and keeps those of the top level for stringToSign.
func (d *document) object(depth int) error {
	if depth > maxDepth {
		return d.fail("nested too deep")
	}
	base := len(d.members)
	var seen map[string]struct{}
	d.pos++
	d.out = append(d.out, '{')
	d.space()
	if d.peek() == '}' {
		d.pos++
		d.out = append(d.out, '}')
		return nil
	}
	for more := true; more; {
		m, err := d.member(depth)
		if err != nil {
			return err
		}
		if seen, err = d.unique(base, m, seen); err != nil {
			return err
		}
		d.members = append(d.members, m)
		if more, err = d.next('}'); err != nil {
			return err
		}
	}
	d.indexesFirst(base)
	if depth > 1 {
		d.members = d.members[:base]
	}
	return nil
}

func (d *document) member(depth int) (m member, err error) {
	d.space()
	if d.peek() != '"' {
		return m, d.fail("a name is missing")
	}
	m.nameAt = len(d.out)
	if m.nameEscaped, err = d.str(); err != nil {
		return m, err
	}
	m.nameEnd = len(d.out)
	d.space()
	if d.peek() != ':' {
		return m, d.fail("a colon is missing")
	}
	d.pos++
	d.out = append(d.out, ':')
	d.space()
	m.valueAt = len(d.out)
	m.valueEscaped, err = d.value(depth + 1)
	m.valueEnd = len(d.out)
	m.index = arrayIndex(d.out[m.nameAt+1 : m.nameEnd-1])
	return m, err
}

// unique refuses a repeated name. Canonical names are equal exactly if the names are
// equal, so unique need not unescape them.
func (d *document) unique(base int, m member, seen map[string]struct{}) (map[string]struct{}, error) {
	name := d.out[m.nameAt:m.nameEnd]
	if string(name) == `"__proto__"` {
		return seen, d.fail("the name __proto__ is not allowed")
	}
	others := d.members[base:]
	if len(others) < linearNames {
		for _, o := range others {
			if bytes.Equal(name, d.out[o.nameAt:o.nameEnd]) {
				return seen, d.fail("a name occurs twice")
			}
		}
		return seen, nil
	}
	if seen == nil {
		seen = make(map[string]struct{}, 2*linearNames)
		for _, o := range others {
			seen[string(d.out[o.nameAt:o.nameEnd])] = struct{}{}
		}
	}
	if _, twice := seen[string(name)]; twice {
		return seen, d.fail("a name occurs twice")
	}
	seen[string(name)] = struct{}{}
	return seen, nil
}

// indexesFirst sorts the members from base on as a JavaScript object lists its
// properties: array indexes in ascending order, then the others in their original
// order. Their text is at the end of out, in braces.
func (d *document) indexesFirst(base int) {
	members := d.members[base:]
	byIndex := func(a, b member) int {
		if a.index >= 0 && b.index >= 0 {
			return cmp.Compare(a.index, b.index)
		}
		// -1, "not an index", comes after every index.
		return cmp.Compare(uint64(a.index), uint64(b.index))
	}
	if slices.IsSortedFunc(members, byIndex) {
		return
	}
	start := members[0].nameAt
	d.spare = append(d.spare[:0], d.out[start:]...)
	d.out = d.out[:start]
	slices.SortStableFunc(members, byIndex)
	for i := range members {
		m := &members[i]
		if i > 0 {
			d.out = append(d.out, ',')
		}
		shift := len(d.out) - m.nameAt
		d.out = append(d.out, d.spare[m.nameAt-start:m.valueEnd-start]...)
		m.nameAt, m.nameEnd, m.valueAt, m.valueEnd = m.nameAt+shift, m.nameEnd+shift, m.valueAt+shift, m.valueEnd+shift
	}
	d.out = append(d.out, '}')
}

// arrayIndex returns the array index that a name spells, or -1. Array indexes are the
// decimal forms of 0 to 2^32-2.
func arrayIndex(name []byte) int64 {
	if len(name) == 0 || len(name) > 10 || name[0] < '0' || name[0] > '9' || name[0] == '0' && len(name) > 1 {
		return -1
	}
	n, err := strconv.ParseUint(string(name), 10, 32)
	if err != nil || n == 1<<32-1 {
		return -1
	}
	return int64(n)
}
