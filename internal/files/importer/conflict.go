package importer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// otherOrder is the order that has a row's order_no.
type otherOrder struct {
	row         Row
	is          string // its outcome, for people
	hash, batch string // its body's hash, and its import
}

// note says what becomes of the row, and which fields differ if the other body can be found.
func (p *publisher) note(ctx context.Context, o *otherOrder) string {
	fields := "; its fields differ"
	if body := p.bodyOf(ctx, o); body != nil {
		fields = "; " + differences(o.row.Order.Canonical(), body)
	}
	return "this order_no has an order already, which is " + o.is + fields + ". Restore the row or leave it out: under another order_no it would be a second order"
}

// bodyOf returns the canonical body of the other order. Only intents and dead letters hold
// bodies. Of a settled order the row itself tells, if the mapping of that order's import
// makes the same order of it. nil = not found.
func (p *publisher) bodyOf(ctx context.Context, o *otherOrder) []byte {
	var found [][]byte
	if m, err := p.q.Store().Intent(ctx, o.row.OrderNo); err == nil && m != nil {
		found = append(found, m.Data)
	}
	letters, _ := p.q.Ledger.Letters(ctx, o.row.OrderNo) // without them fewer fields are named
	for _, l := range letters {
		found = append(found, l.Body)
	}
	if l, _, err := p.f.layoutOf(ctx, p.q, o.batch); err == nil && l != nil {
		body, bad := l.appendBody(nil, o.row.Cells, o.row.kinds, o.row.OrderNo)
		if bad == nil {
			found = append(found, body)
		}
	}
	for _, body := range found {
		if other, err := order.Parse(body); err == nil && other.BodyHash() == o.hash {
			return other.Canonical()
		}
	}
	return nil
}

// differences names the fields of two orders that differ, with their values.
func differences(row, other []byte) string {
	const most = 3
	here, there := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	_, _ = json.Unmarshal(row, &here), json.Unmarshal(other, &there) // both are canonical
	var out []string
	all := maps.Clone(here)
	maps.Copy(all, there)
	value := func(of map[string]json.RawMessage, name string) string {
		if v, ok := of[name]; ok {
			return clip(string(v))
		}
		return "missing"
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(here[name], there[name]) {
			out = append(out, fmt.Sprintf("%s is %s there and %s here", clip(name), value(there, name), value(here, name)))
		}
	}
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// ErrOtherMapping means that a file holds the results of an import with another mapping.
var ErrOtherMapping = errors.New("the results of an import that was read in another way")

// keepMapping refuses a file of results whose rows would become other orders than those of
// their import, because its mapping is missing: an order that exists would be a conflict,
// and a rejected one would be sent with other values. A row may name another import, which
// stored its order before. One import with the same mapping is enough.
func (p *publisher) keepMapping(ctx context.Context) error {
	var refused error
	for _, batch := range slices.Sorted(maps.Keys(p.f.resultsOf)) {
		then, m, err := p.f.layoutOf(ctx, p.q, batch)
		switch {
		case err != nil:
			return err
		case then == nil:
			continue
		}
		was, is := then.reading(), p.f.head.layout.reading()
		if maps.Equal(was, is) && m.OrderNoTemplate == "" {
			return nil
		}
		var other []string
		for name := range was {
			if was[name] != is[name] {
				other = append(other, fmt.Sprintf("%s was %s and is %s", clip(name), clip(was[name]), clip(cmp.Or(is[name], "missing"))))
			}
		}
		for name := range is {
			if was[name] == "" {
				other = append(other, fmt.Sprintf("%s was missing and is %s", clip(name), clip(is[name])))
			}
		}
		if m.OrderNoTemplate != "" {
			other = append(other, "the order numbers were made, and another file gets other ones")
		}
		if refused == nil {
			slices.Sort(other)
			refused = &advised{fmt.Errorf("%s has %w: batch %s: %s; give the mapping of that import again", p.f.o.File, ErrOtherMapping, batch, strings.Join(other, ", ")), m.flags()}
		}
	}
	return refused
}

// layoutOf reads this file's header with the mapping of an import. nil = nothing is known of
// that import, or its mapping does not fit.
func (f *File) layoutOf(ctx context.Context, q *queue.Queue, batch string) (*layout, Mapping, error) {
	var m Mapping
	imp, err := imports.ReadImport(ctx, q, batch)
	if err != nil || imp == nil || f.head.layout == nil || len(imp.Mapping) > 0 && json.Unmarshal(imp.Mapping, &m) != nil {
		return nil, m, err
	}
	l, err := newLayout(f.head.header, m)
	if err != nil {
		return nil, m, nil
	}
	return l, m, nil
}

// reading describes what the layout makes of a row: the type of each field, and constants.
func (l *layout) reading() map[string]string {
	out := map[string]string{}
	if l.empty != "" && l.empty != EmptyString {
		out["an empty cell"] = l.empty
	}
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for name, member := range n.index {
			switch field := prefix + name; {
			case member.column >= 0:
				out[field] = string(l.columns[member.column].typ)
			case member.constant != nil:
				out[field] = string(member.constant)
			default:
				walk(field+".", member)
			}
		}
	}
	walk("", &l.root)
	return out
}
