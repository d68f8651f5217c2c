package importer

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// FuzzImport: whatever a file holds, its good rows are orders that the signing
// rules accept, its bad rows are named, none is lost, and a second reading sees
// the same.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		"order_no,timeout\nA,30\n", "sep=;\r\norder_no;timeout;a.b:int\r\nA;30;5\r\n", "\ufefforder_no\ttimeout\nA\t30\n",
		"order_no,timeout,j:json\nA,30,\"{\"\"x\"\":1}\"\n", oneOrder, "\xff\xfeo\x00", "order_no,timeout\n\xe4,30\n", "order_no,timeout\n\"A\n", ",\n;\n", "\x1f\x8b\x08",
	} {
		f.Add([]byte(seed), "omit", "")
		f.Add([]byte(seed), "", "{batch}-{row}")
	}
	f.Add(book(header, texts("A-1", "30", "x"), `<c><v>42</v></c>`+texts("30", "x"), texts("A-2")+`<c><f>1</f><v>30</v></c><c s="1"><v>46387</v></c>`).Bytes(), "", "")
	f.Fuzz(func(t *testing.T, content []byte, empty, template string) {
		m := Mapping{Empty: empty, OrderNoTemplate: template}
		if m.Validate() != nil {
			return
		}
		file, err := Open(bytes.NewReader(content), Options{File: "f", Reading: Reading{Mapping: m}, Sending: Sending{SkipInvalid: true}, MaxErrors: 1 << 20})
		require.NoError(t, err)
		s, err := file.Check(t.Context())
		if err != nil {
			var bad *BadRows
			require.True(t, !errors.As(err, &bad) || len(bad.Rows) > 0)
			return
		}
		require.Len(t, s.Bad, s.Invalid)
		seen := map[string]bool{}
		good, bad := 0, 0
		_, err = file.scan(t.Context(), func(rows []Row) error {
			for i := range rows {
				if file.problem(&rows[i]) != nil {
					bad++
					continue
				}
				good++
				require.False(t, seen[rows[i].OrderNo], "%q twice", rows[i].OrderNo)
				seen[rows[i].OrderNo] = true
				again, err := order.Parse(rows[i].Order.Canonical())
				require.NoError(t, err)
				require.Equal(t, rows[i].OrderNo, again.OrderNo())
				require.Equal(t, rows[i].Order.BodyHash(), again.BodyHash())
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, s.Rows, good+bad)
		require.Equal(t, s.Invalid, bad)
		require.NoError(t, file.WriteRejects(t.Context(), &bytes.Buffer{}))
	})
}
