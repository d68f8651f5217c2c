package uploads

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/xlsx"
	"orderpost/internal/platform/durable"
)

// part marks the folder of an upload that is not complete.
const part = ".part"

// Keep stores a file as it arrives. It keeps the file completely or not at all. name is
// what the browser calls the file. The error is a *Refusal where the person can do
// something.
func (s *Store) Keep(ctx context.Context, name string, by Person, body io.Reader) (Upload, error) {
	now := time.Now().UTC()
	u := &Upload{ID: newID(), Name: cleanName(name), By: by, At: now, UsedAt: now}
	folder := s.folder(u.ID) + part
	if err := os.Mkdir(folder, 0o700); err != nil {
		return Upload{}, s.full(err)
	}
	in := &arriving{ctx: ctx, r: body, max: s.cfg.MaxFile}
	written, err := s.keep(u, folder, in)
	if in.fail != nil {
		err = in.fail // whatever followed from it
	}
	u.Bytes = written
	if err == nil {
		err = s.settle(u, folder)
	}
	if err != nil {
		s.used.Add(-written)
		_ = os.RemoveAll(folder) // a start removes what is left
		return Upload{}, err
	}
	return *u, nil
}

// keep writes the content. It returns how many bytes the store counts for it.
func (s *Store) keep(u *Upload, folder string, in *arriving) (written int64, err error) {
	r := bufio.NewReaderSize(in, 64<<10)
	head, _ := r.Peek(4)
	switch {
	case in.fail != nil:
		return 0, in.fail
	case len(head) == 0:
		return 0, refuse(Unusable, "the file is empty").of(u.Name)
	case bytes.HasPrefix(head, []byte("PK")):
		return s.keepArchive(u, folder, in, r)
	case importer.IsPacked(head):
		return s.keepAsIs(u, folder, in, r)
	}
	return s.pack(u, folder, r, &bounded{max: s.cfg.MaxFile, slack: s.slack, packed: func() int64 { return in.n }})
}

// keepAsIs stores a file that came as gzip or zstd, and unpacks it to see that it can
// be.
func (s *Store) keepAsIs(u *Upload, folder string, in *arriving, r io.Reader) (int64, error) {
	out, err := s.create(filepath.Join(folder, plainFile))
	if err != nil {
		return 0, err
	}
	tee := io.TeeReader(r, out)
	text, closeText, err := importer.Unpack(u.Name, tee)
	defer closeText()
	count := &bounded{slack: s.slack, packed: func() int64 { return in.n }, max: s.cfg.MaxFile}
	if err == nil {
		_, err = io.Copy(count, text)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, tee)
	}
	err = errors.Join(err, out.close())
	u.Size, u.Unpacked = out.n, count.n
	return out.n, damaged(u.Name, err)
}

// keepArchive stores a zip archive, and in its place the one file in it.
func (s *Store) keepArchive(u *Upload, folder string, in *arriving, r io.Reader) (int64, error) {
	path := filepath.Join(folder, archiveFile)
	out, err := s.create(path)
	if err != nil {
		return 0, err
	}
	stays := false
	defer func() {
		if !stays {
			s.used.Add(-out.n)
		}
	}()
	_, err = io.Copy(out, r)
	if err = errors.Join(err, out.f.Close()); err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	files, err := directory(u.Name, f, out.n)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(files, func(f *zip.File) bool { return xlsx.IsOffice(f.Name) }) {
		stays, err = true, s.keepBook(u, folder, f, out.n)
		return out.n, err
	}
	inner, content, packed, err := single(u.Name, files, out.n)
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }()
	u.Inner = inner
	head := bufio.NewReaderSize(content, 64<<10)
	if start, _ := head.Peek(4); importer.IsPacked(start) {
		return 0, refuse(Unusable, "%s in the zip archive is packed itself; unpack the archive and upload that file", inner).of(u.Name)
	}
	written, err := s.pack(u, folder, head, &bounded{max: s.cfg.MaxFile, slack: s.slack, packed: func() int64 { return packed }})
	if err == nil {
		err = os.Remove(path)
	}
	return written, err
}

// keepBook keeps an archive that is a workbook as it came, if it can be read as one.
func (s *Store) keepBook(u *Upload, folder string, f *os.File, size int64) error {
	book, err := xlsx.Open(f, size, folder)
	if err != nil {
		return unusable(u.Name, err).divided().of(u.Name)
	}
	u.Book, u.Size, u.Unpacked = true, size, size
	return errors.Join(book.Close(), s.full(s.syncFile(f)), s.rename(f.Name(), filepath.Join(folder, plainFile)))
}

// pack stores text in packed form. bound bounds the text.
func (s *Store) pack(u *Upload, folder string, text io.Reader, bound *bounded) (int64, error) {
	plain, _, err := importer.Unpack(u.Source(), text) // refuses what is no text
	if err != nil {
		return 0, damaged(u.Source(), err)
	}
	out, err := s.create(filepath.Join(folder, packedFile))
	if err != nil {
		return 0, err
	}
	packer, err := newPacker(out)
	if err == nil {
		bound.w = packer
		_, err = io.Copy(bound, plain)
		err = errors.Join(err, packer.Close())
	}
	err = errors.Join(err, out.close())
	u.Packed, u.Size, u.Unpacked = true, bound.n, bound.n
	if err == nil && bound.n == 0 {
		err = refuse(Unusable, "the file is empty").of(u.Source())
	}
	return out.n, damaged(u.Source(), err)
}

// settle makes an upload appear, with all that belongs to it.
func (s *Store) settle(u *Upload, folder string) error {
	if err := s.write(folder, u); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.rename(folder, s.folder(u.ID)); err != nil {
		return s.full(err)
	}
	if err := s.syncFolder(s.dir); err != nil {
		return errors.Join(s.full(err), os.RemoveAll(s.folder(u.ID)))
	}
	s.all[u.ID] = u
	return nil
}

func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// directory lists the files in a zip archive.
func directory(name string, f *os.File, size int64) ([]*zip.File, error) {
	archive, err := xlsx.Directory(f, size)
	switch {
	case errors.Is(err, xlsx.ErrDirectory):
		return nil, refuse(Unusable, "this is a zip archive of too many files; upload the file with the orders itself").of(name)
	case err != nil:
		return nil, refuse(Unusable, "the workbook or zip archive is damaged or cut off (%w); copy it again, or upload the file with the orders itself", err).of(name)
	}
	return archive.File, nil
}

// single opens the one file among those of a zip archive. packed is that file's size in
// the archive.
func single(name string, files []*zip.File, size int64) (inner string, content io.ReadCloser, packed int64, err error) {
	files = slices.DeleteFunc(slices.Clone(files), func(f *zip.File) bool { // what a Mac adds
		return strings.HasSuffix(f.Name, "/") || strings.HasPrefix(f.Name, "__MACOSX/") || path.Base(f.Name) == ".DS_Store"
	})
	switch len(files) {
	case 0:
		return "", nil, 0, refuse(Unusable, "the zip archive is empty; upload the CSV file itself").of(name)
	case 1:
	default:
		return "", nil, 0, refuse(Unusable, "the zip archive holds %d files (%s); each file is an import of its own: upload them one by one", len(files), someNames(files)).of(name)
	}
	inner = cleanName(files[0].Name)
	if files[0].Flags&1 != 0 {
		return "", nil, 0, refuse(Unusable, "%s in the zip archive is encrypted; unpack it with its password and upload the file itself", inner).of(name)
	}
	content, err = files[0].Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		err = refuse(Unusable, "the zip archive is packed in a way that cannot be read here (method %d); unpack it and upload the file itself", files[0].Method).of(name)
	} else if err != nil {
		err = refuse(Unusable, "the zip archive is damaged (%w); copy it again, or upload the CSV file itself", err).of(name)
	}
	return inner, content, min(int64(files[0].CompressedSize64), size), err
}

func someNames(files []*zip.File) string {
	var names []string
	for _, f := range files {
		if names = append(names, cleanName(f.Name)); len(names) == 3 && len(files) > 3 {
			names = append(names, "…")
			break
		}
	}
	return strings.Join(names, ", ")
}

// damaged gives what decompressors say a sentence.
func damaged(name string, err error) error {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok { // the store's own trouble
		return err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(Unusable, "the file ends in the middle: it is cut off; copy it again").of(name).because(err)
	case errors.Is(err, zip.ErrChecksum):
		return refuse(Unusable, "the file is damaged, its checksum is wrong; copy it again").of(name).because(err)
	}
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return refuse(Unusable, "the zip archive is damaged (%w); copy it again", err).of(name)
	}
	return unusable(name, err).divided()
}

// A page says that a file is kept only when a power cut can no longer take it: first
// the content is synced, then what is remembered of it, then the folder with both names,
// and then the folder that names that one (package durable says why).

// syncFile makes the data of a file last.
func (s *Store) syncFile(f *os.File) error {
	return errors.Join(s.does("sync", f.Name()), f.Sync())
}

// syncFolder makes the names in a folder last.
func (s *Store) syncFolder(dir string) error {
	if err := s.does("sync", dir); err != nil {
		return err
	}
	return durable.SyncFolder(dir)
}

func (s *Store) rename(from, to string) error {
	if err := s.does("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// does tells a test what is about to be done. An error prevents it.
func (s *Store) does(step, path string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step, path)
}

// sink writes a file of the store. What it writes counts towards the store's limit.
type sink struct {
	s *Store
	f *os.File
	n int64
}

// create makes a file that only the console's user can read.
func (s *Store) create(path string) (*sink, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, s.full(err)
	}
	return &sink{s: s, f: f}, nil
}

// Write implements io.Writer.
func (k *sink) Write(p []byte) (int, error) {
	if used := k.s.used.Add(int64(len(p))); used > k.s.cfg.MaxTotal {
		k.s.used.Add(-int64(len(p)))
		return 0, refuse(NoRoom, "the uploads take %s already, which is as much as they may; remove some that are done, then upload the file again", inBytes(k.s.cfg.MaxTotal))
	}
	n, err := k.f.Write(p)
	k.s.used.Add(int64(n - len(p)))
	k.n += int64(n)
	return n, k.s.full(err)
}

// close makes the file durable.
func (k *sink) close() error { return k.s.full(errors.Join(k.s.syncFile(k.f), k.f.Close())) }

// full gives a full disk its sentence.
func (s *Store) full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refuse(NoRoom, "the disk of the data folder is full, and nothing was kept; make room there, or remove uploads that are done, then try again").because(err)
	}
	return err
}

// arriving is an upload as it arrives. It notes a connection that breaks off.
type arriving struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	max  int64
	fail error
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	if a.fail == nil {
		a.fail = a.ctx.Err()
	}
	if a.fail != nil {
		return 0, a.fail
	}
	n, err := a.r.Read(p)
	a.n += int64(n)
	switch {
	case a.n > a.max:
		a.fail = tooLarge(a.max)
		return 0, a.fail
	case err != nil && err != io.EOF: //nolint:errorlint // io.Reader returns io.EOF itself
		a.fail = refuse(BrokenOff, "the upload broke off after %s, and nothing was kept; upload the file again", inBytes(a.n)).because(err)
		return n, a.fail
	}
	return n, err
}

// tooLarge refuses a file above the limit.
func tooLarge(limit int64) *Refusal {
	return refuse(TooLarge, "the file is larger than %s, and nothing was kept; split it, or import it with enqueue, which takes files of any size", inBytes(limit))
}

// maxRatio is how many times larger text may be than its packed form. Orders differ in
// their numbers: real files stay far below.
const (
	maxRatio   = 500
	ratioSlack = 16 << 20
)

// bounded counts what is unpacked and stops a bomb.
type bounded struct {
	w      io.Writer // nil = only count
	packed func() int64
	slack  int64 // how much may unpack whatever the ratio
	max    int64
	n      int64
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.n += int64(len(p))
	switch {
	case b.n > b.slack && b.n > maxRatio*b.packed():
		return 0, refuse(Unusable, "the file unpacks to more than %d times its size, which no file of orders does (a zip bomb?), and nothing was kept", maxRatio)
	case b.n > b.max:
		return 0, refuse(TooLarge, "the file unpacks to more than %s, and nothing was kept; split it, or import it with enqueue, which takes files of any size", inBytes(b.max))
	case b.w == nil:
		return len(p), nil
	}
	return b.w.Write(p)
}
