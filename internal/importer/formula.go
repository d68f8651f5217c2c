package importer

import (
	"fmt"
	"regexp"
	"slices"

	"orderpost/internal/order"
)

// WarnFormula warns of a cell that a spreadsheet would run as a formula. The import
// sends it as the text that it is. Whoever opens it in a spreadsheet runs it.
const WarnFormula order.WarningCode = "formula"

// formula matches what a spreadsheet runs. Signs before numbers and words are usual in
// data; a call behind one is not.
var formula = regexp.MustCompile(`^(=.|[+\-@].*[A-Za-z](\(|\|'))`)

// formulas adds a warning for each formula among the cells. It does not change
// warnings, which rows share.
func (l *layout) formulas(cells []string, warnings []order.Warning) []order.Warning {
	shared := true
	for i := range l.columns {
		c := &l.columns[i]
		cell := cells[i]
		if cell == "" || c.skip || c.typ != TypeString || len(warnings) >= order.MaxWarnings {
			continue
		}
		switch cell[0] {
		case '=', '+', '-', '@', 0xef: // the last: a full-width sign begins with it
			if !formula.MatchString(halfWidth(cell)) {
				continue
			}
		default:
			continue
		}
		if shared {
			warnings, shared = slices.Clone(warnings), false
		}
		warnings = append(warnings, order.Warning{Code: WarnFormula, Path: c.field, Message: fmt.Sprintf("%q is a formula in a spreadsheet; it is sent as text", clip(cell))})
	}
	return warnings
}

// Meaning says what a kind of warning is, what it means, and what helps. flags says
// whether to name the flags of enqueue.
func (k *WarningKind) Meaning(format Format, flags bool) (what, advice string) {
	try := func(flag string) string {
		if !flags || !format.hasColumns() || flag == "" {
			return ""
		}
		return " (" + flag + ")"
	}
	rename, send := "", ""
	if k.column != nil {
		rename, send = k.column.renameFlags(), nameFlag("--type", k.column.field, string(TypeString))
	}
	what, cure := "", ""
	switch k.Code {
	case WarnFormula:
		return "cells that a spreadsheet would run as formulas", "They are sent as the text that they are; if nobody meant that, correct them where the file comes from."
	case order.WarnNull:
		what, cure = "fields that are null", "leave such fields out"+try("--empty omit")
	case order.WarnName:
		what, cure = "field names with other characters than a-z, 0-9 and _", "use other names"+try(rename)
	case order.WarnUnsorted:
		what, cure = "nested fields whose names are not in alphabetical order", "put them in that order"
	case order.WarnExponent:
		what, cure = "numbers with an exponent such as 1e+21", "send them as text"+try(send)
	}
	return what, "They are sent as they are;\n         if the API answers that the signature is wrong, " + cure + "."
}
