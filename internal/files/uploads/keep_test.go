package uploads

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/smalldisk"
	"orderpost/internal/testing/xlsxtest"
)

// zipped is a zip archive of files, given as name, content, name, content.
func zipped(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		require.NoError(t, err)
		_, err = io.WriteString(w, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.String()
}

func gzipped(t testing.TB, content io.Reader) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.Copy(z, content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func zstandard(t testing.TB, content io.Reader) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	require.NoError(t, err)
	_, err = io.Copy(z, content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// zeros is a long reader of one byte.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// TestKept: a file is packed and private, and reads as what enqueue would read.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	content := numbered(1, 5000)
	z := gzipped(t, strings.NewReader(content))
	for name, c := range map[string]struct{ upload, want, inner string }{
		`C:\orders\Marz.csv`:  {content, content, ""},
		"orders.csv.gz":       {z, z, ""},
		"orders.csv.zst":      {zstandard(t, strings.NewReader(content)), "", ""},
		"orders.zip":          {zipped(t, "out/orders.csv", content, "__MACOSX/out/._orders.csv", "x"), content, "orders.csv"},
		"utf16.csv":           {"\xff\xfeo\x00r\x00d\x00e\x00r\x00_\x00n\x00o\x00\n\x00A\x00\n\x00", "", ""},
		"latin1.csv":          {"order_no,timeout,name\nA-1,30,M\xfcller\n", "", ""},
		"mark.csv":            {"\ufefforder_no,timeout\nA-1,30\n", "", ""},
		"../../etc/pass\nwd?": {content, "", ""},
	} {
		u := keep(t, s, name, c.upload)
		if c.want == "" {
			c.want = c.upload
		}
		require.Equal(t, c.want, text(t, s, u), name)
		require.Equal(t, c.inner, u.Inner)
		require.EqualValues(t, len(c.want), u.Size)
		require.Equal(t, anna, u.By)
		require.NotContains(t, u.Name, "/")
		require.NotContains(t, u.Name, "\n")
	}
	names, size := onDisk(t, s)
	require.Len(t, names, 8)
	require.Equal(t, s.Used(), size)
	require.Less(t, size, int64(6*len(content)/2), "they are packed")
	require.Equal(t, "Marz.csv", cleanName(`C:\orders\Marz.csv`))
	require.Equal(t, "pass_wd_", cleanName("../../etc/pass\nwd?"))
	require.Equal(t, "upload.csv", cleanName(".."))

	// A console that starts again finds all of them.
	before := s.List()
	require.NoError(t, s.Close())
	again := openStore(t, dir)
	require.Equal(t, before, again.List())
	require.Equal(t, size, again.Used())
	require.Empty(t, again.Unreadable())
	require.NoError(t, again.Remove(before[0].ID))
	_, err := again.Get(before[0].ID)
	require.Equal(t, Gone, KindOf(err))
	require.Equal(t, size-before[0].Bytes, again.Used())
}

// TestRefusedFiles: each bad file gets its sentence, and nothing of it stays.
func TestRefusedFiles(t *testing.T) {
	s := openStore(t, t.TempDir(), func(c *Config) { c.MaxFile = 2 << 20 })
	s.slack = 1 << 20 // larger files would only take longer
	good := numbered(1, 1000)
	z := gzipped(t, strings.NewReader(good))
	cut := errors.New("connection reset")
	encrypted := []byte(zipped(t, "a.csv", good))
	encrypted[6] |= 1                                              // in the file's header
	encrypted[bytes.Index(encrypted, []byte("PK\x01\x02"))+8] |= 1 // and in the directory
	book := xlsxtest.Book{Sheets: []string{""}}.Bytes()
	damagedZip := []byte(zipped(t, "a.csv", good))
	damagedZip[60] ^= 0xff
	for name, c := range map[string]struct {
		body io.Reader
		kind Kind
		want string
	}{
		"empty.csv":    {strings.NewReader(""), Unusable, "empty.csv: the file is empty"},
		"empty.csv.gz": {strings.NewReader(gzipped(t, strings.NewReader(""))), 0, ""}, // the check tells
		"book.xlsx":    {strings.NewReader(zipped(t, "[Content_Types].xml", "<x/>", "xl/workbook.xml", "<x/>")), Unusable, "book.xlsx: the workbook (or zip archive) is damaged: the part that lists the sheets is missing"},
		"macro.xlsm":   {bytes.NewReader(xlsxtest.Book{Sheets: []string{""}, Parts: map[string]string{"xl/vbaProject.bin": "x"}}.Bytes()), Unusable, "macro.xlsm: the workbook has macros (.xlsm), which are refused here"},
		"half.xlsx":    {bytes.NewReader(book[:len(book)/2]), Unusable, "half.xlsx: the workbook or zip archive is damaged or cut off"},
		"sheet.ods":    {strings.NewReader(zipped(t, "mimetype", "x", "content.xml", "<x/>", "META-INF/manifest.xml", "")), Unusable, "this is a document of LibreOffice (OpenDocument); save its table as a workbook (.xlsx), or as CSV"},
		"old.xls":      {strings.NewReader("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), Unusable, "an old Excel file (.xls), or a workbook with a password"},
		"report.pdf":   {strings.NewReader("%PDF-1.7"), Unusable, "this is a PDF, not text"},
		"page.csv":     {strings.NewReader("<!DOCTYPE html><html>login"), Unusable, "a web page"},
		"pdf.gz":       {strings.NewReader(gzipped(t, strings.NewReader("%PDF-1.7"))), Unusable, "this is a PDF, not text"},
		"several.zip":  {strings.NewReader(zipped(t, "a.csv", good, "b.csv", good)), Unusable, "the zip archive holds 2 files (a.csv, b.csv)"},
		"none.zip":     {strings.NewReader(zipped(t, "folder/", "")), Unusable, "the zip archive is empty"},
		"nothing.zip":  {strings.NewReader(zipped(t)), Unusable, "the zip archive is empty"},
		"packed.zip":   {strings.NewReader(zipped(t, "a.csv.gz", z)), Unusable, "a.csv.gz in the zip archive is packed itself"},
		"nested.zip":   {strings.NewReader(zipped(t, "a.zip", zipped(t, "a.csv", good))), Unusable, "a spreadsheet or a zip archive, not text"},
		"secret.zip":   {bytes.NewReader(encrypted), Unusable, "a.csv in the zip archive is encrypted"},
		"damaged.zip":  {bytes.NewReader(damagedZip), Unusable, "a.csv: the zip archive is damaged"},
		"half.zip":     {strings.NewReader(zipped(t, "a.csv", good)[:1000]), Unusable, "the workbook or zip archive is damaged or cut off"},
		"half.csv.gz":  {strings.NewReader(z[:len(z)/2]), Unusable, "the gzip data ends in the middle: the file is cut off"},
		"tail.csv.gz":  {strings.NewReader(z + "a longer tail"), Unusable, "other bytes stand behind the gzip data"},
		"half.csv":     {io.MultiReader(strings.NewReader(good[:500]), iotest.ErrReader(cut)), BrokenOff, "the upload broke off after 500 bytes, and nothing was kept; upload the file again"},
		"half2.csv.gz": {io.MultiReader(strings.NewReader(z[:500]), iotest.ErrReader(io.ErrUnexpectedEOF)), BrokenOff, "the upload broke off after 500 bytes"},
		"half3.zip":    {io.MultiReader(strings.NewReader("PK\x03\x04"), iotest.ErrReader(cut)), BrokenOff, "the upload broke off after 4 bytes"},
		"large.csv":    {zeros{}, TooLarge, "the file is larger than 2048 KiB, and nothing was kept; split it, or import it with enqueue"},
		"bomb.gz":      {strings.NewReader(gzipped(t, io.LimitReader(zeros{}, 3<<20))), Unusable, "unpacks to more than 500 times its size"},
		"bomb.zst":     {strings.NewReader(zstandard(t, io.LimitReader(zeros{}, 3<<20))), Unusable, "a zip bomb?"},
		"bomb.zip":     {strings.NewReader(zipped(t, "a.csv", strings.Repeat("0", 3<<20))), Unusable, "a zip bomb?"},
		"large.csv.gz": {strings.NewReader(gzipped(t, io.LimitReader(&unlike{}, 3<<20))), TooLarge, "the file unpacks to more than 2048 KiB"},
	} {
		u, err := s.Keep(t.Context(), name, anna, c.body)
		if c.want == "" {
			require.NoError(t, err, name)
			require.NoError(t, s.Remove(u.ID))
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, c.kind, KindOf(err), name)
		require.NotContains(t, err.Error(), "\n", name)
		r, ok := errors.AsType[*Refusal](err)
		require.True(t, ok, name)
		require.NotContains(t, r.Seen, name, "a file may have no name")
		require.True(t, strings.HasSuffix(r.Text, strings.TrimSuffix(r.Seen+"; "+r.Do, "; ")), "%s: %+v", name, r)
		require.Equal(t, name == "empty.csv" || strings.HasPrefix(name, "bomb."), r.Do == "", "%s: %+v", name, r)
		if c.kind == BrokenOff {
			require.Error(t, r.Err, "for errors.Is; it says nothing to a person")
		}
		names, _ := onDisk(t, s)
		require.Empty(t, names, name)
		require.Zero(t, s.Used(), name)
	}
	_, err := openStore(t, t.TempDir()).Keep(t.Context(), "many.zip", anna, strings.NewReader(zipped(t, manyFiles(50_000)...)))
	require.ErrorContains(t, err, "a zip archive of too many files")
	require.Equal(t, TooLarge, KindOf(openStore(t, t.TempDir()).Announced(2<<30)), "by default")
	require.Equal(t, TooLarge, KindOf(s.Announced(3<<20)))
	require.NoError(t, s.Announced(1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Keep(ctx, "a.csv", anna, strings.NewReader(good))
	require.ErrorIs(t, err, context.Canceled)
}

func manyFiles(n int) []string {
	out := make([]string, 0, 2*n)
	for i := range n {
		out = append(out, strings.Repeat("x", 40)+string(rune('a'+i%26))+".csv", "")
	}
	return out
}

// unlike is text that packs badly, but packs.
type unlike struct{ n uint32 }

func (u *unlike) Read(p []byte) (int, error) {
	for i := range p {
		u.n = u.n*1664525 + 1013904223
		p[i] = "0123456789,\nabcd"[u.n>>28]
	}
	return len(p), nil
}

// TestNoRoom: the folder's limit counts what is on disk, also of uploads under way.
func TestNoRoom(t *testing.T) {
	s := openStore(t, t.TempDir(), func(c *Config) { c.MaxTotal = 3 << 20 })
	var kept []Upload
	for {
		u, err := s.Keep(t.Context(), "a.csv", anna, io.LimitReader(&unlike{uint32(len(kept))}, 1<<20))
		if err != nil {
			require.Equal(t, NoRoom, KindOf(err))
			require.ErrorContains(t, err, "the uploads take 3072 KiB already, which is as much as they may")
			break
		}
		kept = append(kept, u)
	}
	require.GreaterOrEqual(t, len(kept), 2)
	_, size := onDisk(t, s)
	require.Equal(t, size, s.Used())
	require.NoError(t, s.Remove(kept[0].ID))
	_, err := s.Keep(t.Context(), "a.csv", anna, io.LimitReader(&unlike{}, 1<<20))
	require.NoError(t, err)
}

// TestFullDisk: a full disk has a sentence, keeps nothing, and is usable again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk, err := smalldisk.Mount(dir, 2<<20)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		s := openStore(t, dir) // the sentence at least
		require.Equal(t, NoRoom, KindOf(s.full(&os.PathError{Op: "write", Path: dir, Err: noSpace})))
		return
	}
	require.NoError(t, err)
	defer func() { _ = disk.Unmount() }()
	s, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for name, body := range map[string]io.Reader{
		"a.csv": io.LimitReader(&unlike{}, 6<<20), "a.csv.gz": strings.NewReader(gzipped(t, io.LimitReader(&unlike{}, 6<<20))),
		"a.zip": strings.NewReader(zipped(t, "a.csv", string(must(io.ReadAll(io.LimitReader(&unlike{}, 6<<20)))))),
	} {
		_, err = s.Keep(t.Context(), name, anna, body)
		require.Equal(t, NoRoom, KindOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "the disk of the data folder is full, and nothing was kept")
		names, _ := onDisk(t, s)
		require.Empty(t, names)
		require.Zero(t, s.Used())
	}
	keep(t, s, "a.csv", numbered(1, 10))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestRetention: what is fetched or forgotten goes, and nothing else.
func TestRetention(t *testing.T) {
	s := openStore(t, t.TempDir(), func(c *Config) { c.Retention, c.Grace = 48*time.Hour, time.Hour })
	u, f := keep(t, s, "a.csv", numbered(1, 1)), keep(t, s, "b.csv", numbered(1, 1))
	now := time.Now()
	_, err := s.update(f.ID, func(u *Upload) { u.FetchedAt = now })
	require.NoError(t, err)
	require.Empty(t, expired(s, now.Add(59*time.Minute)))
	require.Equal(t, []string{f.ID}, expired(s, now.Add(61*time.Minute)))
	require.Len(t, expired(s, now.Add(49*time.Hour)), 2)
	_, err = s.update(u.ID, func(u *Upload) { u.UsedAt = now.Add(24 * time.Hour) })
	require.NoError(t, err)
	require.Equal(t, []string{f.ID}, expired(s, now.Add(49*time.Hour)))
}

// TestOneConsole: two consoles on one folder would remove each other's uploads.
func TestOneConsole(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir)
	_, err := Open(Config{Dir: dir})
	require.ErrorContains(t, err, "another process uses the folder")
}

// TestUnreadable: what cannot be read is named and left alone.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	u := keep(t, s, "a.csv", numbered(1, 1))
	require.NoError(t, os.WriteFile(filepath.Join(s.folder(u.ID), metaFile), []byte("{"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "mine"), 0o700))
	require.NoError(t, s.Close())
	again := openStore(t, dir)
	require.Empty(t, again.List())
	require.Len(t, again.Unreadable(), 1)
	require.DirExists(t, s.folder(u.ID))
	require.DirExists(t, filepath.Join(s.dir, "mine"))
}

// expired are the uploads that nobody needs any more.
func expired(s *Store, now time.Time) []string {
	fetched, unused := s.Expired(now)
	return append(fetched, unused...)
}

// TestAClockThatJumpsRemovesNothing: an upload must be found unused for an hour, and a
// clock that was ahead for less is forgotten.
func TestAClockThatJumpsRemovesNothing(t *testing.T) {
	wait, now := make(unused), time.Now()
	for range 59 {
		require.Empty(t, wait.due([]string{"a", "b"}, now))
		now = now.Add(time.Minute)
	}
	require.Empty(t, wait.due([]string{"b"}, now), "somebody used a, or the clock is right again")
	now = now.Add(time.Minute)
	require.Equal(t, []string{"b"}, wait.due([]string{"a", "b"}, now))
	require.Equal(t, []string{"a", "b"}, wait.due([]string{"a", "b"}, now.Add(time.Hour)))

}
