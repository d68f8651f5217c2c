package imports

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"orderpost/internal/platform/duration"
)

// ApprovalRule says what needs a second person (ORDERPOST_APPROVALS). Its zero value asks for
// none.
type ApprovalRule struct {
	// All: every import. Otherwise those of more than Rows rows (0 = no such limit), and
	// those in which the numbers of Column, without their signs, add up to more than Sum ("" = no such limit).
	All    bool
	Rows   int
	Column string
	Sum    decimal.Decimal
	// Acts of a person: sending orders again that may exist, settling orders in doubt, a
	// limit that is not lower.
	ResubmitUnknown, Resolve, Limit bool
	// Lapse is how long an import or an act may wait for its approval, and how long an
	// approval lets orders go out.
	Lapse time.Duration
}

// NoApprovals is the setting that ends approvals. An empty one leaves the fleet's rule as it is.
const NoApprovals = "none"

const (
	ruleImports = "imports"
	ruleRows    = "imports.rows"
	ruleSum     = "imports.sum."
	ruleUnknown = "resubmit-unknown"
	ruleResolve = "resolve"
	ruleLimit   = "limit"
	ruleLapse   = "lapse"
)

// defaultLapse is Lapse where the setting names none.
const defaultLapse = 7 * 24 * time.Hour

// ParseApprovalRule reads a setting such as imports,lapse=72h or
// imports.rows=1000,imports.sum.amount=50000.00.
func ParseApprovalRule(text string) (r ApprovalRule, err error) {
	if text = strings.TrimSpace(text); text == "" || text == NoApprovals {
		return r, nil
	}
	r.Lapse = defaultLapse
	for part := range strings.SplitSeq(text, ",") {
		name, value, given := strings.Cut(strings.TrimSpace(part), "=")
		if err := r.set(name, value, given); err != nil {
			return ApprovalRule{}, err
		}
	}
	if !r.On() {
		return ApprovalRule{}, fmt.Errorf("%q names nothing that needs approval; say imports, imports.rows=N, imports.sum.COLUMN=N, resubmit-unknown, resolve or limit, or none", text)
	}
	return r, nil
}

func (r *ApprovalRule) set(name, value string, given bool) (err error) {
	column, sum := strings.CutPrefix(name, ruleSum)
	switch {
	case name == ruleImports && !given:
		r.All = true
	case name == ruleUnknown && !given:
		r.ResubmitUnknown = true
	case name == ruleResolve && !given:
		r.Resolve = true
	case name == ruleLimit && !given:
		r.Limit = true
	case name == ruleRows && r.Rows == 0:
		if r.Rows, err = strconv.Atoi(value); err != nil || r.Rows < 1 {
			return fmt.Errorf("%s=%s: not a number of rows from 1 on", name, value)
		}
	case sum && column != "" && r.Column == "":
		var ok bool
		if r.Sum, ok = Number(value); !ok || r.Sum.IsNegative() {
			return fmt.Errorf("%s=%s: not an amount such as 50000.00", name, value)
		}
		r.Column = column
	case name == ruleLapse:
		if r.Lapse, err = duration.Parse(value); err != nil || r.Lapse < time.Minute {
			return fmt.Errorf("lapse=%s: not a time from 1m to 876000h (100 years), such as 72h", value)
		}
	case name == ruleRows || sum && column != "":
		return fmt.Errorf("%s is there twice: one limit of rows, and one of a column", name)
	case name == NoApprovals:
		return errors.New("none stands alone")
	default:
		return fmt.Errorf("%q is none of imports, imports.rows=N, imports.sum.COLUMN=N, resubmit-unknown, resolve, limit, lapse=72h, none", strings.TrimSpace(name))
	}
	return nil
}

// On reports whether anything needs approval.
func (r *ApprovalRule) On() bool {
	return r.Imports() || r.ResubmitUnknown || r.Resolve || r.Limit
}

// Imports reports whether any import needs approval.
func (r *ApprovalRule) Imports() bool { return r.All || r.Rows > 0 || r.Column != "" }

// String returns the rule as the setting spells it.
func (r *ApprovalRule) String() string {
	if !r.On() {
		return NoApprovals
	}
	var parts []string
	if r.All {
		parts = append(parts, ruleImports)
	}
	if r.Rows > 0 {
		parts = append(parts, ruleRows+"="+strconv.Itoa(r.Rows))
	}
	if r.Column != "" {
		parts = append(parts, ruleSum+r.Column+"="+r.Sum.String())
	}
	for _, act := range []struct {
		needs bool
		word  string
	}{{r.ResubmitUnknown, ruleUnknown}, {r.Resolve, ruleResolve}, {r.Limit, ruleLimit}} {
		if act.needs {
			parts = append(parts, act.word)
		}
	}
	return strings.Join(append(parts, ruleLapse+"="+r.Lapse.String()), ",")
}

// What says which imports need approval.
func (r *ApprovalRule) What() string {
	var parts []string
	switch {
	case r.All:
		return "every import"
	case r.Rows > 0:
		parts = append(parts, fmt.Sprintf("imports of more than %d rows", r.Rows))
	}
	if r.Column != "" {
		parts = append(parts, fmt.Sprintf("imports whose column %s adds up to more than %s", r.Column, r.Sum))
	}
	return strings.Join(parts, ", and ")
}

// Acts says which acts of a person need approval; "" = none.
func (r *ApprovalRule) Acts() string {
	var parts []string
	if r.ResubmitUnknown {
		parts = append(parts, "sending orders again that may exist")
	}
	if r.Resolve {
		parts = append(parts, "settling orders in doubt")
	}
	if r.Limit {
		parts = append(parts, "a higher rate limit")
	}
	return strings.Join(parts, ", and ")
}

// Exceeds says in what an import exceeds the limits; "" = in nothing. rows is how many the
// import has at least. a may be nil: then it judges by rows alone.
func (r *ApprovalRule) Exceeds(rows int, a *Assessment) string {
	if r.All {
		return "every import needs approval"
	}
	if r.Rows > 0 && rows > r.Rows {
		return fmt.Sprintf("it has %d rows, more than %d", rows, r.Rows)
	}
	if r.Column == "" || a == nil {
		return ""
	}
	switch c := a.Column(r.Column); {
	case c.Others > 0:
		return fmt.Sprintf("%d of its orders have no number in %s", c.Others, r.Column)
	case c.Sum.GreaterThan(r.Sum):
		return fmt.Sprintf("its %s adds up to %s, more than %s", r.Column, c.Sum, r.Sum)
	case c.Unsigned.GreaterThan(r.Sum): // a negative number must not make room for others
		return fmt.Sprintf("its %s adds up to %s without the signs, more than %s", r.Column, c.Unsigned, r.Sum)
	}
	return ""
}
