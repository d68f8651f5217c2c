package importer

import "os"

// TempFile creates a temporary file in a folder ("" = the system's) and removes its
// name at once. The file vanishes even if the program is killed. If the system cannot
// remove open files, closeFile removes it.
func TempFile(dir string) (f *os.File, closeFile func(), err error) {
	if f, err = os.CreateTemp(dir, ".enqueue-*"); err != nil {
		return nil, nil, err
	}
	if os.Remove(f.Name()) == nil {
		return f, func() { _ = f.Close() }, nil
	}
	return f, func() { _ = f.Close(); _ = os.Remove(f.Name()) }, nil
}
