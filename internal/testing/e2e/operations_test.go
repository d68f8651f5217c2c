package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/console"
)

var (
	mdLink  = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	setting = regexp.MustCompile(`\bORDERPOST_[A-Z_]*[A-Z]\b`)
)

// requireSettings: every setting that a text names is one.
func requireSettings(t *testing.T, where, text string) {
	t.Helper()
	known := make(map[string]bool)
	for _, s := range slices.Concat(cli.Settings(pool.Config{}), cli.Settings(console.Config{})) {
		known[s.Name] = true
	}
	for _, name := range setting.FindAllString(text, -1) {
		require.True(t, known[name], "%s names the setting %s, which no program reads", where, name)
	}
}

// source is a file or a folder of ours that a document names in its text.
var source = regexp.MustCompile("`((?:internal|cmd|examples|deployments|docs|tools|chaos)/[\\w./-]+)`")

// TestDocuments: what they link to and name exists, and so do the settings that
// they and the example files name.
func TestDocuments(t *testing.T) {
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, l := range mdLink.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(path), l[1]))
			require.NoError(t, err, "%s links to %s", path, l[1])
		}
		for _, m := range source.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat("../../../" + m[1])
			require.NoError(t, err, "%s names %s", path, m[1])
		}
		if filepath.Base(path) != "producers.md" { // it has a test of its own, and variables of other programs
			requireSettings(t, path, strings.NewReplacer("ORDERPOST_SANDBOX", "", cli.CertifyPrefix, cli.EnvPrefix).Replace(string(text)))
		}
	}
	for _, path := range []string{"nats/nats.conf", "nats/cluster.conf", "nats/kustomization.yaml", "cluster.env", "compose.yaml"} {
		text, err := os.ReadFile("../../../deployments/" + path)
		require.NoError(t, err)
		requireSettings(t, path, string(text))
	}
}

// TestTheIndexListsEveryDocument: each can be found from docs/README.md.
func TestTheIndexListsEveryDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/README.md")
	require.NoError(t, err)
	entries, err := os.ReadDir("../../../docs")
	require.NoError(t, err)
	for _, e := range entries {
		listed := e.Name() == "README.md" || filepath.Ext(e.Name()) == ".go" || strings.Contains(string(text), "]("+e.Name()+")")
		require.True(t, listed, "docs/README.md does not link to %s", e.Name())
	}
}

// TestCompose: its settings are the programs', and the files that it mounts
// exist.
func TestCompose(t *testing.T) {
	const path = "../../../deployments/compose.yaml"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var c struct {
		Services map[string]struct {
			Volumes     []string          `yaml:"volumes"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	require.NoError(t, yaml.Unmarshal(text, &c))
	worker := c.Services["worker"].Environment
	require.NotEmpty(t, worker)
	require.Empty(t, cli.UnknownSettings(worker, cli.Settings(pool.Config{})))
	mounted := 0
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				_, err := os.Stat(filepath.Join(filepath.Dir(path), source))
				require.NoError(t, err, "%s mounts %s", name, source)
				mounted++
			}
		}
	}
	require.Positive(t, mounted)
	var scrape struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	config, err := os.ReadFile("../../../deployments/prometheus/prometheus.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(config, &scrape))
	require.Equal(t, []string{filepath.Base(alertsPath)}, scrape.RuleFiles)
}
