package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// overlay is what a build uses in place of files, by their paths (go build -overlay). The product
// itself holds no fault and no switch for one.
type overlay map[string]string

// patch replaces a text that the file holds once.
func (o overlay) patch(file, anchor, by string) error {
	source, found := o[file]
	if !found {
		read, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source = string(read)
	}
	if n := strings.Count(source, anchor); n != 1 {
		return fmt.Errorf("%s is not as proof/chaos expects: %q is there %d times, and should be once: adapt the patch in proof/chaos", file, anchor, n)
	}
	o[file] = strings.Replace(source, anchor, by, 1)
	return nil
}

// write writes the files into dir, and returns the one for go build -overlay; "" = nothing is replaced.
func (o overlay) write(dir string) (string, error) {
	if len(o) == 0 {
		return "", nil
	}
	replace := make(map[string]string, len(o))
	for i, file := range slices.Sorted(maps.Keys(o)) {
		replace[file] = filepath.Join(dir, "overlay-"+strconv.Itoa(i)+".patched")
		if err := os.WriteFile(replace[file], []byte(o[file]), 0o600); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	return path, errors.Join(err, os.WriteFile(path, text, 0o600))
}
