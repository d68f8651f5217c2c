package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	shellBlock = regexp.MustCompile("(?m)^```sh\n((?s:.*?))^```$")
	yamlBlock  = regexp.MustCompile("(?m)^```yaml\n# (\\S+)\n((?s:.*?))^```$")
	fromFile   = regexp.MustCompile(`--from(?:-env)?-file=(\S+)`)
	needsAPod  = regexp.MustCompile(`^kubectl .* (exec|logs) `)
)

// TestCommandsOfTheDocument runs what docs/operations.md says of Kubernetes, line by line, on
// an empty API server. What asks a pod is left out: there are no nodes.
func TestCommandsOfTheDocument(t *testing.T) {
	a := start(t)
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Kubernetes\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")

	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(root, "deployments"), filepath.Join(dir, "deployments")))
	for _, m := range fromFile.FindAllStringSubmatch(section, -1) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, m[1]), []byte("WORKER_NKEY=U\n"), 0o600))
	}
	for _, m := range yamlBlock.FindAllStringSubmatch(section, -1) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600))
	}
	shell := func(line string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "KUBECONFIG="+a.kubeconfig)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
		return string(out)
	}
	ran := make(map[string]int)
	for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
		withHelm := strings.HasPrefix(block[1], "helm ")
		if withHelm { // in place of what kubectl has just applied
			shell("kubectl delete -k deployments/kubernetes/overlays/production")
			shell("kubectl delete --ignore-not-found -k deployments/kubernetes/overlays/small") // its config map
		}
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			tool, _, _ := strings.Cut(line, " ")
			require.Contains(t, []string{"kubectl", "helm"}, tool, line)
			if !needsAPod.MatchString(line) {
				shell(line)
				ran[tool]++
			}
		}
		if withHelm {
			left := shell("kubectl -n orderpost get deployments,configmaps,secrets -o name")
			require.Contains(t, left, "deployment.apps/orderpost-worker")
			require.Contains(t, left, "deployment.apps/orderpost-gateway")
			shell("helm uninstall orderpost -n orderpost")
			left = shell("kubectl -n orderpost get deployments,configmaps,secrets -o name")
			require.NotContains(t, left, "deployment")
			require.NotContains(t, left, "configmap/orderpost-worker")
			require.Contains(t, left, "secret/orderpost-api", "its secrets are not Helm's")
		}
	}
	require.Greater(t, ran["kubectl"], 15)
	require.Greater(t, ran["helm"], 1)
}
