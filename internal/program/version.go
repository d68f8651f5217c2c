package program

import "runtime/debug"

// release is set by the linker where the build knows no version control, as in
// the image (Dockerfile).
var release string

// Version is the program's version: what the linker was told, else that of its
// build information, with the commit where the build knows it.
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
