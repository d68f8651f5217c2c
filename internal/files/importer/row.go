package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// Row is one row of a file with its order.
type Row struct {
	// Number counts the rows from 1 without blank ones. Line is the row's first line
	// in the file.
	Number, Line int
	OrderNo      string
	// Order is nil if the row is bad. It is set if Err is one of [Questions], and the only
	// mistake of the row.
	Order *order.Order
	// NotBefore is the time in the column _not_before; zero = none.
	NotBefore time.Time
	Warnings  []order.Warning
	Err       *RowError
	// Cells holds the cells as read. For NDJSON it holds the line.
	Cells []string
	// kinds says what the cells of a workbook are; nil = text.
	kinds []xlsx.Kind
}

// bodyHash returns the hash of the row's order; "" = it has none.
func (r *Row) bodyHash() string {
	if r.Order == nil {
		return ""
	}
	return r.Order.BodyHash()
}

// encoder converts rows to orders. It is not safe for concurrent use.
type encoder struct {
	t        *table
	batch    string
	template string
	buf      []byte
	schema   *schema.Schema
	broken   *set // the rows that break the schema; nil = nobody knows yet
	// common caches the warnings of a layout with sameWarnings. known says that it
	// is filled.
	common []order.Warning
	known  bool
}

func (e *encoder) row(rec record) Row {
	if rec.bad == nil && e.t.layout != nil {
		rec.cells, rec.kinds = e.t.layout.asShown(rec.cells, rec.kinds)
	}
	row := Row{Number: rec.number, Line: rec.line, Cells: rec.cells, kinds: rec.kinds, Err: rec.bad}
	if row.Err != nil {
		return row
	}
	var made string
	if e.template != "" {
		made = strings.NewReplacer("{batch}", e.batch, "{row}", strconv.Itoa(rec.number)).Replace(e.template)
	}
	body := e.buf[:0]
	if e.t.format == FormatNDJSON {
		body = append(body, rec.cells[0]...)
		if namesTime(rec.cells[0]) {
			row.Err = e.t.cellError(rec, &cellError{column: 1, code: CodeTime, field: notBeforeColumn, err: errTimeInNDJSON})
			return row
		}
	} else {
		var bad *cellError
		if row.NotBefore, bad = e.t.layout.readNotBefore(rec.cells, e.t.past, e.t.until); bad != nil {
			row.Err = e.t.cellError(rec, bad)
			return row
		}
		body, bad = e.t.layout.appendBody(body, rec.cells, rec.kinds, made)
		if rec.totals != "" && (bad == nil || bad.code == CodeType || bad.code == CodeNoOrder) {
			bad = e.t.layout.totals(rec, bad)
		}
		if bad != nil {
			row.Err = e.t.cellError(rec, bad)
			if !row.Err.IsQuestion() || bad.partial {
				return row
			}
		}
	}
	e.buf = body
	parsed, err := order.Parse(body)
	if err != nil {
		row.Err = e.t.ruleError(rec, err)
		return row
	}
	if row.Err == nil {
		if row.Err = e.checkSchema(rec, parsed); row.Err != nil {
			return row
		}
	}
	row.OrderNo = parsed.OrderNo()
	if e.t.format == FormatNDJSON {
		if bad := e.t.checkOrderNo(row.OrderNo); bad != nil {
			row.Err = &RowError{File: e.t.file, Line: rec.line, Name: order.FieldOrderNo, Code: bad.code, Err: bad.err, Field: order.FieldOrderNo}
			if !row.Err.IsQuestion() {
				return row
			}
		}
	}
	row.Order, row.Warnings = parsed, e.warnings(rec, parsed)
	if e.t.format.hasColumns() {
		row.Warnings = e.t.layout.formulas(rec.cells, row.Warnings)
	}
	return row
}

// totals returns the question about a row that a workbook calls one of totals, or what was found
// before if the mapping answers it.
func (l *layout) totals(rec record, before *cellError) *cellError {
	i := max(l.orderNo, 0)
	c := &l.columns[i]
	if c.accept.has(CodeNoOrder) {
		return before
	}
	return &cellError{column: i + 1, code: CodeNoOrder, field: c.field, partial: before != nil && (before.partial || before.code == CodeType), err: advise(
		fmt.Sprintf("the row has the totals of the table %s, and is no order; remove it (in Excel: Table Design, Total Row)", clip(rec.totals)), ". If it is one: "+acceptFlag(c.field, CodeNoOrder))}
}

// checkSchema checks an order against the schema, unless an earlier pass did.
func (e *encoder) checkSchema(rec record, parsed *order.Order) *RowError {
	if e.broken != nil && !e.broken.has(rec.number) {
		return nil
	}
	if bad := e.schema.Check(parsed); bad != nil {
		return e.t.ruleError(rec, bad)
	}
	return nil
}

// checkOrderNo checks the order number of an NDJSON row.
func (t *table) checkOrderNo(orderNo string) *cellError {
	if isPadded(orderNo) {
		return padded(orderNo)
	}
	code := questionOfOrderNo(orderNo)
	if code == "" && strings.EqualFold(orderNo, order.FieldOrderNo) {
		code = CodeNoOrder
	}
	if code != "" && !t.accept.has(code) {
		return &cellError{code: code, err: questionError(order.FieldOrderNo, orderNo, code)}
	}
	return nil
}

// warnings returns the warnings of a row. It walks the body again only if rows can
// differ in their warnings.
func (e *encoder) warnings(rec record, parsed *order.Order) []order.Warning {
	if e.t.format == FormatNDJSON || !e.t.layout.sameWarnings || e.t.layout.longNumber(rec.cells) {
		return parsed.Warnings()
	}
	if !e.known {
		e.common, e.known = parsed.Warnings(), true
	}
	return e.common
}

// longNumber reports whether a row has a whole number that may get an exponent.
func (l *layout) longNumber(cells []string) bool {
	for i, c := range l.columns {
		if c.typ == TypeInt && len(cells[i]) > 15 {
			return true
		}
	}
	return false
}

func (t *table) cellError(rec record, bad *cellError) *RowError {
	if how, ok := errors.AsType[*advised](bad.err); ok && bad.code == CodeNoOrder {
		bad.err = &advised{how.err, fmt.Sprintf(" (--skip-rows %d leaves it out)", rec.line) + how.flags}
	}
	if t.format == FormatNDJSON {
		return &RowError{File: t.file, Line: rec.line, Name: bad.field, Code: bad.code, Err: bad.err, Field: bad.field}
	}
	i := bad.column - 1
	line := rec.line
	if t.format == FormatCSV {
		for _, cell := range rec.cells[:i] {
			line += t.linesIn(cell)
		}
	}
	return &RowError{File: t.file, Sheet: t.sheet, Line: line, Column: bad.column, Name: t.layout.columns[i].header, Code: bad.code, Err: bad.err, Field: bad.field, Or: bad.or}
}

// ruleError returns an error of the signing rules with its column.
func (t *table) ruleError(rec record, err error) *RowError {
	e := &RowError{File: t.file, Sheet: t.sheet, Line: rec.line, Err: err}
	var path string
	e.Code, path = refused(err)
	if t.layout != nil && path != "" {
		if e.Column = t.layout.findAround(path); e.Column > 0 {
			e.Name = t.layout.columns[e.Column-1].field
		}
	}
	return e
}
