package uploads

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
)

// TestCheck: what a person sees of a file before it is imported, by the code of
// enqueue --dry-run.
func TestCheck(t *testing.T) {
	d := openDesk(t, openStore(t, t.TempDir()), nil)
	content := "order_no,timeout,qty:int,note\n" +
		"A-1,30,1,fine\n" +
		"A-2,30,two,\n" +
		"A-3,30\n" +
		"A-1,30,1,again\n" +
		"31.12.2026,30,1,\n" +
		"A-4,30,4,=1+1\n" +
		"A-5,30,5,end"
	u := checked(t, d, "orders.csv", content)
	c := u.Checked
	require.Empty(t, c.Stopped)
	require.Equal(t, anna, c.By)
	require.Equal(t, 7, c.Summary.Rows)
	require.Equal(t, []importer.InvalidKind{{Code: importer.CodeType, Rows: 1, Line: 3}, {Code: importer.CodeCells, Rows: 1, Line: 4}, {Code: importer.CodeDuplicate, Rows: 1, Line: 5}, {Code: importer.CodeDate, Rows: 1, Line: 6}}, c.Summary.InvalidKinds)
	require.Equal(t, BadRow{Line: 3, Column: 3, Name: "qty:int", Value: "two", Code: importer.CodeType, Message: `column qty:int: "two" is not a whole number such as 30`, Row: 3, Correctable: true}, c.Bad[0])
	require.Equal(t, "order_no", c.Bad[3].Accept)
	require.NotContains(t, c.Bad[3].Message, "--accept")
	require.Equal(t, importer.WarnFormula, c.Summary.WarningKinds[0].Code)
	require.Equal(t, 8, c.Summary.Unended)
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"qty":1,"note":"fine"}`, `{"order_no":"A-4","timeout":30,"qty":4,"note":"=1+1"}`, `{"order_no":"A-5","timeout":30,"qty":5,"note":"end"}`}, c.First)

	require.Equal(t, "orders.csv.rejects.csv", c.Rejects)
	var rejects bytes.Buffer
	require.NoError(t, d.Rejects(t.Context(), u.ID, &rejects))
	require.Equal(t, 5, strings.Count(rejects.String(), "\n"), rejects.String())
	require.Contains(t, rejects.String(), "A-2,30,two,,3,3,wrong_type,")
	_, size := onDisk(t, d.store)
	require.Equal(t, size, d.store.Used())

	// The same again: the rejects file replaces the first.
	require.NoError(t, d.Check(u.ID, anna, ""))
	finished(t, d, u.ID)
	_, size = onDisk(t, d.store)
	require.Equal(t, size, d.store.Used())

	// The question is answered, the type is text: only the mistakes stay.
	set := importer.Reading{Mapping: importer.Mapping{Types: map[string]importer.Type{"qty": importer.TypeString}, Accept: map[string][]importer.Code{"order_no": {importer.CodeDate}}}, Batch: "march"}
	require.NoError(t, arrange(d, u.ID, set))
	u, err := d.store.Get(u.ID)
	require.NoError(t, err)
	require.Nil(t, u.Checked, "a check with other settings does not count")
	require.Equal(t, Unready, KindOf(d.Rejects(t.Context(), u.ID, &rejects)))
	require.NoError(t, d.Check(u.ID, anna, ""))
	u = finished(t, d, u.ID)
	require.Equal(t, 2, u.Checked.Summary.Invalid)
	require.Equal(t, "march", u.Checked.Summary.Batch)

	var mapping bytes.Buffer
	require.NoError(t, d.MappingFile(u.ID, &mapping))
	require.Contains(t, mapping.String(), "enqueue --mapping THIS_FILE --batch 'march' FILE")
	m, err := importer.ReadMapping("m", &mapping)
	require.NoError(t, err)
	require.Equal(t, set.Mapping, m)

	require.NoError(t, d.Remove(u.ID, ""))
	names, _ := onDisk(t, d.store)
	require.Empty(t, names)
}

// TestSameBatchAsEnqueue: the file has the identity that it has with enqueue, however
// it is kept.
func TestSameBatchAsEnqueue(t *testing.T) {
	d := openDesk(t, openStore(t, t.TempDir()), nil)
	content := numbered(1, 700)
	for name, upload := range map[string]string{"a.csv": content, "a.csv.gz": gzipped(t, strings.NewReader(content)), "a.csv.zst": zstandard(t, strings.NewReader(content))} {
		for _, set := range []importer.Reading{{}, {Mapping: importer.Mapping{Empty: importer.EmptyOmit}, Encoding: importer.UTF8, Delimiter: ",", Format: importer.FormatCSV}} {
			o := importer.Options{File: "elsewhere.csv", Reading: set}
			f, err := importer.Open(strings.NewReader(upload), o)
			require.NoError(t, err)
			require.Equal(t, f.Batch, checked(t, d, name, upload, set).Checked.Summary.Batch)
		}
	}
	f, err := importer.Open(strings.NewReader(content), importer.Options{})
	require.NoError(t, err)
	require.Equal(t, f.Batch, checked(t, d, "a.zip", zipped(t, "a.csv", content)).Checked.Summary.Batch)
}

// TestHopelessFiles: a file that cannot be read to its end says where and why, and is
// not imported.
func TestHopelessFiles(t *testing.T) {
	d := openDesk(t, openStore(t, t.TempDir()), nil)
	for content, want := range map[string]string{
		"order_no,timeout\nA-1,30\nA-2,\"30\n":            `line 3: extraneous or missing " in quoted-field; put the whole cell in quotes`,
		"qty,timeout\n1,30\n":                             "line 1: there is no column order_no among qty, timeout",
		"order_no,timeout\n":                              "the file has no rows",
		"[{\"order_no\":\"A\"}]\n":                        "line 1: the file is",
		gzipped(t, strings.NewReader("")):                 "line 1: the file is empty",
		"order_no,timeout,n\nA-1,30,\xfc\nA-2,30,\x81\n":  " is not UTF-8 (byte 0xFC, character 1)",
		"order_no,timeout\nA-1,30\nA-1,30\nA-3,\"30\"x\n": "line 4:",
	} {
		u := checked(t, d, "a.csv", content)
		require.Contains(t, u.Checked.Stopped, want)
		require.Equal(t, u.Checked.Stopped, strings.TrimSpace(u.Checked.Stopped))
	}
}

func TestHead(t *testing.T) {
	d := openDesk(t, openStore(t, t.TempDir()), nil)
	u := keep(t, d.store, "a.zip", zipped(t, "bestellungen.csv", "Auftragsnummer;Menge\nA-1;1\n"))
	h, err := d.HeadAt(u.ID, "", 0, 5)
	require.NoError(t, err)
	m := h.Propose()
	require.Equal(t, "order_no", m.Rename["Auftragsnummer"])
	require.NoError(t, arrange(d, u.ID, importer.Reading{Mapping: m}))
	for _, bad := range []importer.Reading{{}, {Mapping: importer.Mapping{Empty: "x"}}, {Mapping: m, Delimiter: "two"}, {Mapping: m, Encoding: "latin"}, {Mapping: m, Batch: "a b"}} {
		require.Equal(t, Unusable, KindOf(d.Fits(u.ID, bad)), "%+v", bad)
	}
	u, err = d.store.Get(u.ID)
	require.NoError(t, err)
	require.Equal(t, m, u.Settings.Mapping, "nothing is changed")
	_, err = d.HeadAt("../../../etc", "", 0, 1)
	require.Equal(t, Gone, KindOf(err))
	require.Equal(t, Gone, KindOf(d.Check("0123456789abcdef", anna, "")))
}

// TestStoppedCheck: one check at a time, with its progress, and stopped it changes
// nothing.
func TestStoppedCheck(t *testing.T) {
	d := openDesk(t, openStore(t, t.TempDir()), nil)
	a, b := keep(t, d.store, "a.csv", numbered(1, 1000)), keep(t, d.store, "b.csv", numbered(1, 1000))
	d.checks <- struct{}{} // another check runs
	require.NoError(t, d.Check(a.ID, anna, ""))
	require.NoError(t, d.Check(b.ID, Person{Name: "ben"}, ""))
	err := d.Check(a.ID, anna, "")
	require.Equal(t, Busy, KindOf(err))
	require.ErrorContains(t, err, "the upload is being checked already, for anna since")
	require.Equal(t, Busy, KindOf(d.Remove(a.ID, "")))
	require.Equal(t, Busy, KindOf(arrange(d, a.ID, importer.Reading{})))
	job := d.Job(b.ID)
	require.NotNil(t, job)
	require.Equal(t, Waiting, job.Progress().Step)
	require.Equal(t, "ben", job.By)
	require.NoError(t, d.Stop(t.Context(), a.ID, anna, ""))
	require.Nil(t, d.Job(a.ID))
	u, err := d.store.Get(a.ID)
	require.NoError(t, err)
	require.Nil(t, u.Checked)
	<-d.checks
	require.Equal(t, 1000, finished(t, d, b.ID).Checked.Summary.Rows)
	require.Nil(t, d.Job(b.ID))
	require.NoError(t, d.Stop(t.Context(), b.ID, anna, ""), "there is nothing to stop")
}
