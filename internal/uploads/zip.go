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

	"orderpost/internal/xlsx"
)

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
