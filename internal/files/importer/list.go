package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"orderpost/internal/order"
)

// EachNumber reads a list of order numbers and passes each with its line to visit. column names the column, or the
// member of each NDJSON line, with dots between the names of members inside members. bad says that the line has
// no order number, or one that a program has probably changed.
func EachNumber(ctx context.Context, content io.ReadSeeker, o Options, column string, visit func(line int, orderNo string, bad error) error) error {
	t, _, closeAll, err := openOnce(content, &o)
	defer closeAll()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(t.header, func(name string) bool { return strings.TrimSpace(name) == column })
	if at < 0 && t.format.hasColumns() {
		return fmt.Errorf("%s: the header has no column %q, only %q; --order-no names the column with our order numbers", t.file, column, t.header)
	}
	path := strings.Split(column, ".")
	for {
		rec, err := t.next()
		if err = cmp.Or(err, ctx.Err()); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var no string
		var bad error
		switch {
		case rec.bad != nil:
			bad = rec.bad.Err
		case t.format == FormatNDJSON:
			no, bad = member(rec.cells[0], path)
		default:
			no = rec.cells[at]
		}
		if bad == nil {
			bad = wrongNumber(no)
		}
		if err := visit(rec.line, no, bad); err != nil {
			return err
		}
	}
}

// wrongNumber returns what is wrong with a listed order number. It asks what an import asks, and nobody can accept it here.
func wrongNumber(no string) error {
	switch code := questionOfOrderNo(no); {
	case no == "":
		return errors.New("there is no order number")
	case len(no) > order.MaxOrderNo:
		return fmt.Errorf("the order number has %d bytes, the longest has %d", len(no), order.MaxOrderNo)
	case isPadded(no):
		return padded(no).err
	case code != "":
		return questionError(order.FieldOrderNo, no, code)
	}
	return nil
}

// within returns a value inside a JSON object.
func within(line string, path []string) (value json.RawMessage, err error) {
	value = json.RawMessage(line)
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, fmt.Errorf("no JSON object in which %s could be: %w", name, err)
		}
		if value = object[name]; value == nil {
			return nil, fmt.Errorf("the line has no member %s", strings.Join(path, "."))
		}
	}
	return value, nil
}

// member returns a string, or a number as it is written, inside a JSON object.
func member(line string, path []string) (text string, err error) {
	value, err := within(line, path)
	switch {
	case err != nil:
		return "", err
	case value[0] == '"':
		err = json.Unmarshal(value, &text)
		return text, err
	case value[0] == '-' || value[0] >= '0' && value[0] <= '9':
		return string(value), nil
	}
	return "", fmt.Errorf("%s is neither a string nor a number", strings.Join(path, "."))
}
