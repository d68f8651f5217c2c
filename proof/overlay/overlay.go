// Package overlay builds programs that differ from the product (go build -overlay), for proofs. The
// product itself holds no fault and no switch for one.
package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Files is what a build uses in place of files, by their paths.
type Files map[string]string

// Product returns the path of a file of the product, given by its path in the repository.
func Product(ctx context.Context, file string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "orderpost").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m orderpost: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(file)), nil
}

// Patch replaces a text that the file holds once.
func (f Files) Patch(file, anchor, by string) error {
	source, found := f[file]
	if !found {
		read, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source = string(read)
	}
	if n := strings.Count(source, anchor); n != 1 {
		return fmt.Errorf("%s is not as the proofs expect: %q is there %d times, and should be once: adapt the patch in proof", file, anchor, n)
	}
	f[file] = strings.Replace(source, anchor, by, 1)
	return nil
}

// Write writes the files into dir, and returns the one for go build -overlay; "" = nothing is replaced.
func (f Files) Write(dir string) (string, error) {
	if len(f) == 0 {
		return "", nil
	}
	replace := make(map[string]string, len(f))
	for i, file := range slices.Sorted(maps.Keys(f)) {
		replace[file] = filepath.Join(dir, "overlay-"+strconv.Itoa(i)+".patched")
		if err := os.WriteFile(replace[file], []byte(f[file]), 0o600); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	return path, errors.Join(err, os.WriteFile(path, text, 0o600))
}
