package manifests

import (
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// load reads compose.yaml as docker compose does, schema included.
func load(t *testing.T, more ...cli.ProjectOptionsFn) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{deployments + "compose.yaml"}, more...)
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestCompose(t *testing.T) {
	p := load(t)
	names := p.ServiceNames()
	slices.Sort(names)
	require.Equal(t, []string{"grafana", "nats", "prometheus", "sandbox", "worker"}, names)
	require.Equal(t, "nats://nats:4222", *p.Services["worker"].Environment["ORDERPOST_NATS_URL"])
	require.Equal(t, "1", *p.Services["worker"].Environment["ORDERPOST_REPLICAS"])
	require.True(t, p.Services["worker"].ReadOnly)
}

// TestComposeWithACluster: cluster.env is all that it takes.
func TestComposeWithACluster(t *testing.T) {
	p := load(t, cli.WithEnvFiles(deployments+"cluster.env"), cli.WithDotEnv, cli.WithDefaultProfiles())
	require.Subset(t, p.ServiceNames(), []string{"nats-1", "nats-2", "nats-3", "worker"})
	require.Equal(t, "3", *p.Services["worker"].Environment["ORDERPOST_REPLICAS"])
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		require.Contains(t, *p.Services["worker"].Environment["ORDERPOST_NATS_URL"], name)
		require.Contains(t, p.Services[name].Command, name, "its own name")
	}
}
