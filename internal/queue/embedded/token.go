package embedded

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// tokenFile holds the data folder's token. It outlives restarts, so that the
// workers that joined get back in when the one that runs the broker returns.
const tokenFile = "token"

// tokenBytes is the token's length before hex.
const tokenBytes = 32

// keptToken reads the data folder's token, or makes one (0600). A token that
// others could read is worth nothing any more: renewed says that a new one took
// its place, and why.
func keptToken(dir string) (token, renewed string, err error) {
	path := filepath.Join(dir, tokenFile)
	for _, name := range []string{path, filepath.Join(dir, endpointFile)} { // a killed server leaves its endpoint behind
		why, err := exposed(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", "", fmt.Errorf("embedded broker: token: %w", err)
		}
		if why != "" {
			renewed = why
		}
	}
	if kept, err := os.ReadFile(path); renewed == "" && err == nil && len(kept) == 2*tokenBytes {
		return string(kept), "", nil
	}
	raw := make([]byte, tokenBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", "", fmt.Errorf("embedded broker: token: %w", err)
	}
	token = hex.EncodeToString(raw)
	if err := replaceFile(path, []byte(token)); err != nil {
		return "", "", fmt.Errorf("embedded broker: token: %w", err)
	}
	return token, renewed, nil
}

// exposed says why a file of secrets is not ours alone; "" = it is. Windows
// keeps permissions in another way, which is not looked at.
func exposed(path string) (why string, err error) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" {
		return "", err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Sprintf("%s can be read or changed by others (mode %04o)", path, mode), nil
	}
	return "", nil
}
