package program

import "runtime/debug"

// Version is the program's version from its build information: the module's,
// with the commit where the build knows it.
func Version() string {
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
