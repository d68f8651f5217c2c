package importer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }

// openText opens content as a file named orders.csv.
func openText(t testing.TB, content string, change ...func(*Options)) *File {
	t.Helper()
	o := Options{File: "orders.csv", Sending: Sending{Direct: true}}
	for _, c := range change {
		c(&o)
	}
	f, err := Open(strings.NewReader(content), o)
	require.NoError(t, err)
	return f
}

// bodies checks a file and gives its orders as they would be sent.
func bodies(t testing.TB, f *File) (Summary, []string) {
	t.Helper()
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	rows, err := f.Preview(t.Context(), 1000)
	require.NoError(t, err)
	var out []string
	for _, row := range rows {
		out = append(out, string(row.Order.Canonical()))
	}
	return s, out
}

// refusals checks a file and gives what is wrong with it, one error a line.
func refusals(t testing.TB, f *File) string {
	t.Helper()
	_, err := f.Check(t.Context())
	require.Error(t, err)
	return err.Error()
}

func joined(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// pieces hands content out in pieces of n bytes, so that characters are cut.
type pieces struct {
	r *bytes.Reader
	n int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

func (p *pieces) Seek(offset int64, whence int) (int64, error) { return p.r.Seek(offset, whence) }

func newReader(b []byte) *bytes.Reader { return bytes.NewReader(b) }
