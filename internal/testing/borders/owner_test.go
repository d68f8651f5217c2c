package borders

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// copyTree copies the repository's files, without what is hidden or built.
func copyTree(t *testing.T) (to string) {
	t.Helper()
	to = t.TempDir()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		switch {
		case err != nil || relErr != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "dist" || d.Name() == "testdata" || rel == "data"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, rel), data, 0o644)
		}
		return err
	}))
	return to
}

func firstGroup(t *testing.T, dir, name, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	require.NotNil(t, found, "%s has no %s", name, pattern)
	return found[1]
}

// requireVersion wants one version in the program, the two descriptions of its API and the chart.
func requireVersion(t *testing.T, dir, want string) {
	t.Helper()
	require.Equal(t, want, firstGroup(t, dir, "internal/cli/version.go", `const Number = "(.*)"`))
	for _, name := range []string{"docs/openapi.yaml", "docs/asyncapi.yaml"} {
		require.Equal(t, want, firstGroup(t, dir, name, `\n  version: (.*)\n`), name)
	}
	for _, of := range []string{"version", "appVersion"} {
		require.Equal(t, want, firstGroup(t, dir, "deployments/helm/orderpost/Chart.yaml", `\n`+of+`: "(.*)"`), of)
	}
}

func TestTheVersionIsOne(t *testing.T) {
	t.Parallel()
	requireVersion(t, root, cli.Number)
	require.Equal(t, cli.Number, firstGroup(t, root, "CHANGELOG.md", `\n## ([0-9.]+)`), "the newest section")
}

// TestTheOwnersChoices sets version, module and licence in a copy, each twice, and builds
// and tests there.
func TestTheOwnersChoices(t *testing.T) {
	t.Parallel()
	dir := copyTree(t)
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
		return string(out)
	}
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("The Licence\n\nYou may.\n"), 0o600))
	for _, to := range []struct{ version, module, licence string }{
		{"0.9.1", "git.example.org/first.try/orders", "MIT"},
		{"1.0.0", "example.com/acme/orderpost", "Apache-2.0"},
	} {
		run("make", "version", "VERSION="+to.version)
		run("make", "module", "MODULE="+to.module)
		run("make", "licence", "LICENCE="+to.licence, "TEXT="+text)
	}
	requireVersion(t, dir, "1.0.0")
	for _, is := range []struct{ name, pattern, want string }{
		{"go.mod", `(?m)^module (.*)$`, "example.com/acme/orderpost"},
		{"tools/go.mod", `(?m)^replace (.*) =>`, "example.com/acme/orderpost"},
		{"proof/peers/go.mod", `(?m)^\t(.*acme.*) v0\.0\.0`, "example.com/acme/orderpost"},
		{"tools/release/packages.go", `License: "(.*?)"`, "Apache-2.0"},
		{"tools/release/main.go", `-X (.*)/internal/cli\.release`, "example.com/acme/orderpost"},
		{"docs/openapi.yaml", `identifier: (.*)`, "Apache-2.0"},
		{"deployments/packages/copyright", `(?s)License: (Apache-2.0\n The Licence\n \.\n You may\.\nComment:)`, "Apache-2.0\n The Licence\n .\n You may.\nComment:"},
		{"LICENSE", `(?s)^(.*)$`, "The Licence\n\nYou may.\n"},
		{"CONTRIBUTING.md", `\*\*Licence\.\*\* (.*)`, "[Apache-2.0](LICENSE)."},
	} {
		require.Equal(t, is.want, firstGroup(t, dir, is.name, is.pattern), is.name)
	}
	require.Empty(t, run("gofmt", "-l", "."))
	require.Contains(t, run("go", "list", "-deps", "-test", "./...", "./proof/..."), "example.com/acme/orderpost/proof/oracle\n", "every import is found")
	require.Contains(t, run("go", "test", "./internal/order"), "ok  \texample.com/acme/orderpost/internal/order")
	for _, wrong := range [][]string{{"version", "VERSION=v2"}, {"module", "MODULE=orderpost"}, {"licence", "LICENCE=MIT"}} {
		out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", dir}, wrong...)...).CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Contains(t, string(out), "give ")
	}
}
