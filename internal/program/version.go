package program

import "runtime/debug"

// release is set by the linker for builds without version control, such as the image
// (Dockerfile).
var release string

// Version returns the program's version: release if set, otherwise the module's
// version with the commit.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, commit := info.Main.Version, ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			commit = s.Value[:12]
		}
	}
	if version == "" {
		version = "(devel)"
	}
	if commit != "" {
		return version + " " + commit
	}
	return version
}
