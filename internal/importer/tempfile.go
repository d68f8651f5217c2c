package importer

import "os"

// TempFile makes a file without a name in a folder ("": the system's temporary
// one): whatever becomes of the program, nothing is left behind. Where a system
// cannot remove open files, close removes it.
func TempFile(dir string) (f *os.File, closeFile func(), err error) {
	if f, err = os.CreateTemp(dir, ".enqueue-*"); err != nil {
		return nil, nil, err
	}
	if os.Remove(f.Name()) == nil {
		return f, func() { _ = f.Close() }, nil
	}
	return f, func() { _ = f.Close(); _ = os.Remove(f.Name()) }, nil
}
