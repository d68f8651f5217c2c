package importer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
)

// TestResultsWithoutTheirMapping: a results file that somebody corrected and imports without
// the mapping of its import would send other orders. It is refused before anything is stored.
func TestResultsWithoutTheirMapping(t *testing.T) {
	q := openQueue(t)
	typed := Mapping{Types: map[string]Type{"qty": TypeInt}, Set: map[string]string{"timeout": "60"}, Accept: map[string][]Code{"order_no": {CodeRounded}}}
	f := openText(t, joined("order_no,qty", "A-1,1", "A-2,2"), mapped(typed))
	publish(t, q, f)
	work(t, q, 2, map[string]order.Verdict{"A-2": order.Rejected})
	var out strings.Builder
	_, err := f.WriteResults(t.Context(), q, &out, FormatCSV)
	require.NoError(t, err)
	corrected := strings.Replace(out.String(), "A-2,2", "A-2,3", 1)

	for name, c := range map[string]struct {
		m    Mapping
		want string
	}{
		"none":         {Mapping{Set: map[string]string{"timeout": "30"}}, "qty was int and is string, timeout was 60 and is 30"},
		"another type": {Mapping{Types: map[string]Type{"qty": TypeNumber}, Set: map[string]string{"timeout": "60"}}, "qty was int and is number"},
		"one more":     {Mapping{Types: typed.Types, Set: map[string]string{"timeout": "60", "shop": "web"}}, `shop was missing and is "web"`},
		"empty cells":  {Mapping{Types: typed.Types, Set: typed.Set, Empty: EmptyNull}, "an empty cell was missing and is null"},
		"another name": {Mapping{Types: map[string]Type{"n": TypeInt}, Set: typed.Set, Rename: map[string]string{"qty": "n"}}, "n was missing and is int, qty was int and is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			again := openText(t, corrected, mapped(c.m))
			s, err := again.Check(t.Context())
			require.NoError(t, err)
			_, err = again.Publish(t.Context(), q, s)
			require.ErrorIs(t, err, ErrOtherMapping)
			require.ErrorContains(t, err, "batch "+f.Batch+": ")
			require.ErrorContains(t, err, c.want+"; give the mapping of that import again: --type qty=int --set timeout=60")
			imp, err := imports.ReadImport(t.Context(), q, again.Batch)
			require.NoError(t, err)
			require.Nil(t, imp, "nothing began")
		})
	}

	typed.Accept = nil // answers to questions make no other orders
	done := publish(t, q, openText(t, corrected, mapped(typed)))
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 1, Corrected: 1}, done.Fates)

	plain := strings.Replace(strings.ReplaceAll(corrected, ","+f.Batch, ",unheard-of"), "order_no,qty", "order_no,qty:int", 1)
	done = publish(t, q, openText(t, plain, mapped(Mapping{Set: typed.Set})))
	require.Equal(t, 1, done.Fates[Settled(order.OutcomeAccepted)], "nothing is known of its import")
	same := strings.Replace(corrected, "order_no,qty", "order_no,qty:int", 1)
	done = publish(t, q, openText(t, same, mapped(Mapping{Set: typed.Set})))
	require.Equal(t, 1, done.Fates[Settled(order.OutcomeAccepted)], "another mapping that makes the same orders")
}

// TestResultsOfMadeOrderNumbers: another file would get other numbers, and each order a
// second time.
func TestResultsOfMadeOrderNumbers(t *testing.T) {
	q := openQueue(t)
	made := mapped(Mapping{OrderNoTemplate: "{batch}-{row}"})
	f := openText(t, joined("qty,timeout", "1,30", "2,30"), made)
	publish(t, q, f)
	work(t, q, 2, nil)
	var out strings.Builder
	_, err := f.WriteResults(t.Context(), q, &out, FormatCSV)
	require.NoError(t, err)
	again := openText(t, out.String(), made)
	s, err := again.Check(t.Context())
	require.NoError(t, err)
	_, err = again.Publish(t.Context(), q, s)
	require.ErrorIs(t, err, ErrOtherMapping)
	require.ErrorContains(t, err, "the order numbers were made, and another file gets other ones")
}

// TestAConflictNamesItsFields: where the order that has the number came of the same row by
// another mapping, the conflict says what differs.
func TestAConflictNamesItsFields(t *testing.T) {
	q := openQueue(t)
	content := joined("order_no,timeout,qty,price,a.b,shop", "A-1,30,1,2.5,x,web")
	publish(t, q, openText(t, content, mapped(Mapping{Types: map[string]Type{"qty": TypeInt, "price": TypeNumber}, Rename: map[string]string{"a.b": "c", "shop": "s"}})))
	work(t, q, 1, nil)
	done := publish(t, q, openText(t, content))
	require.Equal(t, map[Fate]int{Conflict: 1}, done.Fates)
	require.Contains(t, done.Errors[0], `which is accepted; a is missing there and {"b":"x"} here, c is "x" there and missing here, price is 2.5 there and "2.5" here, and 3 more. Restore the row or leave it out`)
}
