package submit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// withSchema is a worker of an API that accepts everything.
func withSchema(t *testing.T, schema *schema.Schema, change func(*Config)) *rig {
	t.Helper()
	return newSchemaRig(t, &fakeAPI{handle: accept}, StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, schema, change)
}

// TestAnOrderThatBreaksTheSchemaIsNotPosted, unless it may have been posted before. Then a
// schema changes nothing.
func TestAnOrderThatBreaksTheSchemaIsNotPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Parse("s.json", []byte(`{"properties":{"items":{"items":{"properties":{"price":{"minimum":1}}}}}}`))
		require.NoError(t, err)
		r := withSchema(t, schema, nil)
		bad, err := order.Parse([]byte(`{"order_no":"A","timeout":5,"items":[{"price":2},{"price":0}]}`))
		require.NoError(t, err)
		noted := 0
		submit := func(h order.History) order.Report {
			return *r.Submit(context.Background(), &order.Submission{Order: bad, History: h,
				WriteAhead: func(context.Context, order.History) error { noted++; return nil }})
		}
		got := submit(order.History{})
		require.Equal(t, order.EndInvalid, got.End)
		require.Equal(t, "invalid: schema, items[].price", got.Reason)
		require.Equal(t, "items[1].price: 0 is below the minimum, 1 (order schema, /properties/items/items/properties/price/minimum)", got.Error)
		require.Equal(t, order.Settlement{Action: order.ActSettle, Outcome: order.OutcomeInvalid}, order.Decide(&got, order.Facts{Policy: order.Park}))
		posts, _ := r.api.calls()
		require.Zero(t, posts)
		require.Zero(t, noted, "no note says that an attempt began")

		for name, h := range map[string]order.History{"attempted": {Attempts: 1}, "in doubt": {Unsure: true}, "a delivery is unexplained": {Lost: 1}} {
			before, _ := r.api.calls()
			got := submit(h)
			require.Equal(t, []any{order.EndAnswer, order.Accepted}, []any{got.End, got.Verdict}, name)
			posts, _ := r.api.calls()
			require.Equal(t, before+1, posts, name)
		}
		require.Equal(t, order.Accepted, r.one("fine").Verdict)
	})
}

// TestAHoldHoldsWhatBreaksTheSchema: whoever sees that the schema is wrong can stop the
// fleet before the rest of the queue ends as invalid.
func TestAHoldHoldsWhatBreaksTheSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Parse("s.json", []byte(`false`))
		require.NoError(t, err)
		r := withSchema(t, schema, nil)
		r.gate.HoldByAnswer("test", "a person holds")
		ended := make(chan order.Report, 1)
		go func() { ended <- r.one("A") }()
		synctest.Wait()
		require.Empty(t, ended)
		r.Drain()
		require.Equal(t, order.EndHandBack, (<-ended).End)
	})
}

// TestASchemaThatRefusesEverythingHoldsThePool: a typo in the schema ends a run of orders at
// most in the queue again, and no order as invalid. The corrected file lets them go.
func TestASchemaThatRefusesEverythingHoldsThePool(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "order.schema.json")
	set := func(text string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	set(`{"required":["custmer"]}`)
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Config{File: file}.Load(zerolog.Nop())
		require.NoError(t, err)
		r := withSchema(t, schema, func(c *Config) { c.HoldRetry = 0 })
		reports := r.many("n", 500)
		require.Equal(t, map[order.End]int{order.EndHandBack: 500}, ends(reports))
		posts, _ := r.api.calls()
		require.Zero(t, posts)
		require.False(t, r.Gate().Open())
		require.Contains(t, r.Gate().State().Reasons[0], "custmer: is missing")
		require.Contains(t, r.Gate().State().Reasons[0], "is ORDERPOST_ORDER_SCHEMA right? If it is, resume.")
		require.Equal(t, 1, strings.Count(r.log.String(), "break the order schema"))
		for _, rep := range reports {
			require.Equal(t, order.ActHandBack, order.Decide(&rep, order.Facts{}).Action)
			require.Zero(t, rep.History.Attempts)
		}

		set(`{"required":["order_no"]}`)
		time.Sleep(3 * time.Second) // the worker looks at it each second
		require.Equal(t, map[order.End]int{order.EndAnswer: 500}, ends(r.many("n", 500)))
		require.True(t, r.Gate().Open())

		set(`{"required":["order_nmbr"]}`) // that orders fulfilled another one proves nothing
		time.Sleep(3 * time.Second)
		require.Equal(t, map[order.End]int{order.EndHandBack: 500}, ends(r.many("n", 500)))
	})
}

// A few orders that break the schema end as invalid after a quiet time; all of them at once, once
// an order fulfilled it, and after a person's word.
func TestOrdersThatBreakTheSchemaAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Parse("s.json", []byte(`{"properties":{"order_no":{"pattern":"^good"}}}`))
		require.NoError(t, err)
		r := withSchema(t, schema, func(c *Config) { c.HoldRetry = 0 })
		began := time.Now()
		require.Equal(t, map[order.End]int{order.EndInvalid: 19}, ends(r.many("bad", 19)))
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, order.Accepted, r.one("good").Verdict)
		var all sync.WaitGroup
		var bad []order.Report
		all.Go(func() { bad = r.many("bad", 2000) })
		all.Go(func() { require.Equal(t, map[order.End]int{order.EndAnswer: 2000}, ends(r.many("good", 2000))) })
		all.Wait()
		require.Equal(t, map[order.End]int{order.EndInvalid: 2000}, ends(bad))
		require.True(t, r.Gate().Open())
	})
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Parse("s.json", []byte(`false`))
		require.NoError(t, err)
		r := withSchema(t, schema, func(c *Config) { c.HoldRetry = 0 })
		require.Equal(t, map[order.End]int{order.EndHandBack: 300}, ends(r.many("bad", 300)))
		r.Gate().Resume()
		require.Equal(t, map[order.End]int{order.EndInvalid: 300}, ends(r.many("bad", 300)), "a person has looked")
	})
}
