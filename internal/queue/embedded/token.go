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

// tokenFile holds the data folder's token. It outlives restarts, so workers
// that joined get back in when the broker's process returns.
const tokenFile = "token"

// tokenBytes is the token's length before hex.
const tokenBytes = 32

// keptToken reads the data folder's token or creates one (0600). It replaces a
// token that others could read. renewed then says why.
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
	if kept, err := os.ReadFile(path); renewed == "" && err == nil && isToken(kept) {
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

// isToken reports whether a token file is whole. Earlier versions did not sync it: a
// power cut could leave zeros, which everybody can guess.
func isToken(kept []byte) bool {
	raw, err := hex.DecodeString(string(kept))
	return err == nil && len(raw) == tokenBytes
}

// exposed returns why other users can read or change a file of secrets; "" if
// they cannot. It does not check Windows, which keeps permissions in another
// way.
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
