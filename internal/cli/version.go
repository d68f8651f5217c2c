package cli

import (
	"runtime/debug"
	"strings"
)

// Number is the version that this tree is, or becomes: make version sets it.
const Number = "0.1.0"

// release is set by the linker for builds without version control, such as the image
// (Dockerfile).
var release string

// Version returns the program's version: release if set, otherwise that of the module's
// tag, otherwise Number-dev, with the commit.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, commit := info.Main.Version, ""
	if version == "" || version == "(devel)" || strings.HasPrefix(version, "v0.0.0-") { // no tag
		version = "v" + Number + "-dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			commit = s.Value[:12]
		}
	}
	if commit != "" {
		return version + " " + commit
	}
	return version
}
