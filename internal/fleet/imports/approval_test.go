package imports

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func TestApprovalRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "none",
		"none":                 "none",
		"imports":              "imports,lapse=168h0m0s",
		" imports , lapse=72h": "imports,lapse=72h0m0s",
		"imports.rows=1000,imports.sum.order.amount=50000.10": "imports.rows=1000,imports.sum.order.amount=50000.1,lapse=168h0m0s",
		"limit,resolve, resubmit-unknown,lapse=1h":            "resubmit-unknown,resolve,limit,lapse=1h0m0s",
	} {
		r, err := ParseApprovalRule(text)
		require.NoError(t, err, text)
		require.Equal(t, want, r.String())
		again, err := ParseApprovalRule(r.String())
		require.NoError(t, err, text)
		require.Equal(t, r.String(), again.String())
	}
	for text, says := range map[string]string{
		"everything":                      `"everything" is none of imports, imports.rows=N, imports.sum.COLUMN=N, resubmit-unknown, resolve, limit, lapse=72h, none`,
		"resolve=yes":                     `"resolve" is none of`,
		"imports=1":                       `"imports" is none of`,
		"imports.rows=0":                  "imports.rows=0: not a number of rows from 1 on",
		"imports.rows=1e3":                "not a number of rows",
		"imports.rows=1,imports.rows=2":   "imports.rows is there twice",
		"imports.sum.amount=many":         "imports.sum.amount=many: not an amount such as 50000.00",
		"imports.sum.amount=1e999999999":  "not an amount",
		"imports.sum.a=1,imports.sum.b=1": "imports.sum.b is there twice",
		"imports.sum.=5":                  "is none of",
		"imports,lapse=1s":                "lapse=1s: not a time from 1m to 876000h (100 years), such as 72h",
		"lapse=72h":                       "names nothing that needs approval",
		"imports,none":                    "none stands alone",
	} {
		_, err := ParseApprovalRule(text)
		require.ErrorContains(t, err, says, text)
	}
	unreadable := Approvals{Rule: "imports.of.a.newer.version"}
	rule := unreadable.ReadRule()
	require.True(t, rule.All, "a rule that this version cannot read holds every import")
	require.True(t, rule.ResubmitUnknown && rule.Resolve && rule.Limit, "and every act")
}

// Sums are exact, whatever a float64 would make of them.
func TestAssessmentsAddUpExactly(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	bodies := []string{
		`{"order_no":"A-1","timeout":30,"amount":0.1,"text":"12.50","order":{"net":123456789.01}}`,
		`{"order_no":"A-2","timeout":30,"amount":0.2,"text":"0.50","order":{"net":0.02}}`,
		`{"order_no":"A-3","timeout":30,"amount":-7,"text":"none","order":{"net":1e-3}}`,
		`{"order_no":"A-1","timeout":30,"amount":1e300}`,
	}
	for i, body := range bodies {
		no := order.Truncate(body[13:], 3)
		in := settle.Intent{OrderNo: no, Body: []byte(body), ID: "march:" + string(rune('1'+i)), Lane: "bulk", Batch: "march", Source: "march.csv:" + string(rune('1'+i))}
		if i == 3 {
			in.NotBefore = time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		}
		require.NoError(t, q.PublishMany(t.Context(), []settle.Intent{in})[0].Err)
	}
	other := settle.Intent{OrderNo: "B-1", Body: []byte(`{"order_no":"B-1","timeout":30,"amount":1000}`), ID: "april:1", Lane: "bulk", Batch: "april"}
	require.NoError(t, q.PublishMany(t.Context(), []settle.Intent{other})[0].Err)
	a, err := Assess(t.Context(), q, "march", "text", 1<<62, nil)
	require.NoError(t, err)
	require.Equal(t, 4, a.Count)
	require.Equal(t, uint64(4), a.UpTo.Seq)
	require.Equal(t, 1, a.Repeated)
	require.Equal(t, 1, a.Later)
	sum := func(name string) string { return a.Column(name).Sum.String() }
	require.Equal(t, "-6.7", sum("amount"))
	require.Equal(t, 1, a.Column("amount").Others, "a number that cannot be added up is said")
	require.Equal(t, "123456789.031", sum("order.net"))
	require.Equal(t, "13", sum("text"), "texts count in the column of the rule")
	require.Equal(t, 2, a.Column("text").Others)
	largest := a.Column("amount").Largest
	require.Len(t, largest, 3)
	require.Equal(t, []string{"A-2", "A-1", "A-3"}, []string{largest[0].OrderNo, largest[1].OrderNo, largest[2].OrderNo})
	again, err := Assess(t.Context(), q, "march", "", 1<<62, nil)
	require.NoError(t, err)
	require.Equal(t, a.Bound, again.Bound)
	require.Empty(t, a.Last, "it is among the first")
	part, err := Assess(t.Context(), q, "march", "", 3, nil)
	require.NoError(t, err)
	require.Equal(t, 3, part.Count)
	require.NotEqual(t, a.Digest, part.Digest)

	rule := ApprovalRule{Column: "order.net", Sum: decimal.RequireFromString("123456789.031")}
	require.Contains(t, rule.Exceeds(4, a), "1 of its orders have no number in order.net")
	require.Empty(t, rule.Exceeds(3, part), "the sum is the limit")
	rule.Sum = decimal.RequireFromString("123456789.0309")
	require.Equal(t, "its order.net adds up to 123456789.031, more than 123456789.0309", rule.Exceeds(3, part))
	require.Contains(t, (&ApprovalRule{Column: "price"}).Exceeds(4, a), "4 of its orders have no number in price")
}

// A limit counts amounts without their signs, and each order once, so that no order makes room
// below the limit for another one.
func TestNothingMakesRoomBelowTheLimit(t *testing.T) {
	rule := ApprovalRule{Column: "order.amount", Sum: decimal.NewFromInt(100)}
	for why, bodies := range map[string][]string{
		"":                         {`"order":{"amount":60}`, `"order":{"amount":-40}`},
		"adds up to 2000 without":  {`"order":{"amount":1000}`, `"order":{"amount":-1000}`},
		"adds up to 1000 without":  {`"order":{"amount":-1000}`},
		"adds up to 1999 without":  {`"order":{"amount":1000},"order.amount":-999`},
		"adds up to 100.5 without": {`"order":{"amount":"100.25"}`, `"order":{"amount":"-0.25"}`},
		"adds up to 101, more":     {`"order":{"amount":50}`, `"order":{"amount":51}`},
		"1 of its orders have no":  {`"order":{"amount":1},"order.amount":1`, `"order":{"amount":"all of it"}`},
	} {
		_, a := assessedOf(rule.Column, bodies...)
		if says := rule.Exceeds(len(bodies), a); why == "" {
			require.Empty(t, says)
		} else {
			require.Contains(t, says, why)
		}
	}
}

// assessedOf assesses orders with these fields. names are the columns with their sums.
func assessedOf(column string, bodies ...string) (names []string, a *Assessment) {
	s := &assessor{digest: sha256.New(), seed: maphash.MakeSeed(), sums: NewSums(column)}
	for i, body := range bodies {
		s.add(&settle.Message{Seq: uint64(i + 1), Data: fmt.Appendf(nil, `{"order_no":"%d.5","timeout":30,%s}`, i+1, body)})
	}
	a = s.finish()
	for _, c := range a.Columns {
		names = append(names, fmt.Sprint(c.Name, " ", c.Sum, " ", c.Text))
	}
	return names, a
}

// TestSumsThatMeanSomething: never the timeout, unless the rule names it, nor codes; and
// texts that are amounts.
func TestSumsThatMeanSomething(t *testing.T) {
	names, a := assessedOf("", `"price":"12.50","zip":"01067","sku":"12","note":"1.5","a":{"b":"-0.25"},"free":"","exp":"1.5e3"`, `"price":"7","zip":"10115","sku":"13","note":"two","a":{"b":"1"},"free":"2.5"`)
	require.Equal(t, []string{"a.b 0.75 true", "free 2.5 true", "price 19.5 true"}, names)
	require.Equal(t, 1, a.Column("free").Others)
	rows := make([]string, shownRows+3)
	for i := range rows {
		rows[i] = `"n":1`
	}
	_, long := assessedOf("", rows...)
	require.Len(t, long.First, shownRows)
	require.Contains(t, long.Last[0].Body, fmt.Sprintf(`"order_no":"%d.5"`, len(rows)))
	names, _ = assessedOf("timeout", `"n":1`)
	require.Equal(t, []string{"n 1 false", "timeout 30 false"}, names)
	names, _ = assessedOf("", `"mixed":"1.5"`, `"mixed":2`)
	require.Equal(t, []string{"mixed 2 false"}, names)
	many := make([]string, 2*mostColumns)
	for i := range many {
		many[i] = fmt.Sprintf(`"f%02d":"1.5"`, i)
	}
	names, a = assessedOf("", strings.Join(many, ","))
	require.Len(t, names, mostColumns)
	require.True(t, a.MoreColumns)
	require.Equal(t, "f00 1.5 true", names[0])
}

// Two logins are two persons, whoever uploaded.
func TestAnApprovalNeedsTwoPersons(t *testing.T) {
	by := func(names ...string) (out []Signature) {
		for _, name := range names {
			out = append(out, Signature{Name: name})
		}
		return out
	}
	up := func(name string) *Signature { return &Signature{Name: name} }
	require.False(t, (&Approval{}).Whole())
	require.False(t, (&Approval{Asker: up("anna")}).Whole())
	require.False(t, (&Approval{Given: by("bob")}).Whole(), "nobody knows who stored it")
	require.True(t, (&Approval{Given: by("bob", "carol")}).Whole())
	require.True(t, (&Approval{Asker: up("anna"), Given: by("bob")}).Whole())
	require.False(t, (&Approval{Asker: up("Anna"), Given: by("anna")}).Whole(), "who uploads after having approved is one person")
	require.False(t, (&Approval{Asker: up("anna"), Given: by("bob"), Refused: up("carol")}).Whole())
}
