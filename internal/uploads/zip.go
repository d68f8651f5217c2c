package uploads

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// maxDirectory bounds what is read of an archive to list its files. A file of
// thousands of entries is no file of orders.
const maxDirectory = 4 << 20

// single opens the one file in a zip archive. packed is that file's size in the
// archive.
func single(name string, f *os.File, size int64) (inner string, content io.ReadCloser, packed int64, err error) {
	r := &bounder{r: f, left: maxDirectory}
	archive, err := zip.NewReader(r, size)
	switch {
	case errors.Is(err, errDirectory):
		return "", nil, 0, refuse(Unusable, "%s is a zip archive of too many files; upload the CSV file itself", name)
	case err != nil:
		return "", nil, 0, refuse(Unusable, "%s: the zip archive is damaged or cut off; copy it again, or upload the CSV file itself: %w", name, err)
	}
	r.left = -1
	files := archive.File
	if what := office(files); what != "" {
		return "", nil, 0, refuse(Unusable, "%s is %s, not CSV: open it, choose \"Save as\" and the format CSV UTF-8, and upload that file", name, what)
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f *zip.File) bool { // what a Mac adds
		return strings.HasSuffix(f.Name, "/") || strings.HasPrefix(f.Name, "__MACOSX/") || path.Base(f.Name) == ".DS_Store"
	})
	switch len(files) {
	case 0:
		return "", nil, 0, refuse(Unusable, "%s: the zip archive is empty; upload the CSV file itself", name)
	case 1:
	default:
		return "", nil, 0, refuse(Unusable, "%s: the zip archive holds %d files (%s); each file is an import of its own: upload them one by one", name, len(files), someNames(files))
	}
	inner = cleanName(files[0].Name)
	if files[0].Flags&1 != 0 {
		return "", nil, 0, refuse(Unusable, "%s: %s in the zip archive is encrypted; unpack it with its password and upload the file itself", name, inner)
	}
	content, err = files[0].Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		err = refuse(Unusable, "%s: the zip archive is packed in a way that the console cannot read (method %d); unpack it and upload the file itself", name, files[0].Method)
	} else if err != nil {
		err = refuse(Unusable, "%s: the zip archive is damaged; copy it again, or upload the CSV file itself: %w", name, err)
	}
	return inner, content, min(int64(files[0].CompressedSize64), size), err
}

// office returns which program's document an archive is; empty = none.
func office(files []*zip.File) string {
	for _, f := range files {
		switch {
		case strings.HasPrefix(f.Name, "xl/"):
			return "an Excel workbook"
		case strings.HasPrefix(f.Name, "word/"):
			return "a Word document"
		case strings.HasPrefix(f.Name, "ppt/"):
			return "a PowerPoint presentation"
		case strings.HasPrefix(f.Name, "Index/") && strings.HasSuffix(f.Name, ".iwa"):
			return "a Numbers document"
		case f.Name == "META-INF/manifest.xml":
			return "a document of LibreOffice"
		}
	}
	return ""
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

var errDirectory = errors.New("the directory is too long")

// bounder bounds how much is read while left is not negative.
type bounder struct {
	r    io.ReaderAt
	left int64
}

// ReadAt implements io.ReaderAt.
func (b *bounder) ReadAt(p []byte, off int64) (int, error) {
	if b.left >= 0 {
		if b.left -= int64(len(p)); b.left < 0 {
			b.left = 0
			return 0, errDirectory
		}
	}
	return b.r.ReadAt(p, off)
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
		return refuse(Unusable, "%s: the file ends in the middle: it is cut off; copy it again: %w", name, err)
	case errors.Is(err, zip.ErrChecksum):
		return refuse(Unusable, "%s: the file is damaged, its checksum is wrong; copy it again: %w", name, err)
	}
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return refuse(Unusable, "%s: the zip archive is damaged (%w); copy it again", name, err)
	}
	return &Refusal{Kind: Unusable, Text: err.Error(), Err: err}
}
