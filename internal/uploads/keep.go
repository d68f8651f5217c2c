package uploads

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"orderpost/internal/importer"
	"orderpost/internal/xlsx"
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
