package enqueue

import (
	"fmt"
	"strings"

	"orderpost/internal/platform/textfile"
)

// The settings for the API secret. One of them is set.
const (
	secretSetting     = "ORDERPOST_API_SECRET"
	secretFileSetting = "ORDERPOST_API_SECRET_FILE"
)

// secretFrom reads the API secret of a key pair, counted from 1, as the worker does:
// from the environment, or from the file that the environment names, one secret per
// line. Spaces belong to a secret. Errors do not quote it.
func secretFrom(environ map[string]string, pair int) (string, error) {
	name, text := secretSetting, environ[secretSetting]
	path := environ[secretFileSetting]
	switch {
	case text != "" && path != "":
		return "", fmt.Errorf("%s and %s are both set: give one of them", secretSetting, secretFileSetting)
	case text == "" && path == "":
		return "", fmt.Errorf("no API secret: set %s or %s", secretSetting, secretFileSetting)
	case path != "":
		data, err := textfile.Read(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", secretFileSetting, err)
		}
		name, text = secretFileSetting, string(data)
	}
	found := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		if found++; found == pair {
			return line, nil
		}
	}
	return "", fmt.Errorf("%s holds %d secret(s), and --pair asks for number %d", name, found, pair)
}
