package main

import (
	"regexp"
	"time"
)

var (
	released  = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-((?:rc|beta|alpha)[.\d]*))?(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)
	notOfOurs = regexp.MustCompile(`[^A-Za-z0-9.]+`)
)

// packageVersion turns what git describe says into a version that dpkg and rpm
// sort as we mean it: 1.2.0~rc1 before 1.2.0 before 1.2.0+7.gabc before 1.3.0,
// and a commit without a tag before all of them, by its time.
func packageVersion(describe string, when time.Time) string {
	m := released.FindStringSubmatch(describe)
	if m == nil {
		return "0.0.0~" + when.UTC().Format("20060102150405") + "." + notOfOurs.ReplaceAllString(describe, ".")
	}
	v := m[1]
	if m[2] != "" {
		v += "~" + m[2]
	}
	if m[3] != "" {
		v += "+" + m[3] + ".g" + m[4]
	}
	if m[5] != "" {
		v += "+dirty"
	}
	return v
}
