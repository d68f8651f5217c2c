package manifests

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	compose "github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"orderpost/internal/cli"
	"orderpost/internal/console"
	"orderpost/internal/gateway"
)

// load reads compose.yaml as docker compose does, schema included: with the
// file of variables that is named, or else the .env beside it.
func load(t *testing.T, envFile ...string) *types.Project {
	t.Helper()
	options, err := compose.NewProjectOptions([]string{deployments + "compose.yaml"},
		compose.WithEnvFiles(envFile...), compose.WithDotEnv, compose.WithDefaultProfiles())
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestCompose(t *testing.T) {
	p := load(t)
	names := p.ServiceNames()
	slices.Sort(names)
	require.Equal(t, []string{"console", "gateway", "grafana", "nats", "prometheus", "sandbox", "worker"}, names)
	requireOnePublisher(t, p, "nats", "4222")
	require.Equal(t, "nats://nats:4222", *p.Services["worker"].Environment["ORDERPOST_NATS_URL"])
	require.Equal(t, "1", *p.Services["worker"].Environment["ORDERPOST_REPLICAS"])
	require.True(t, p.Services["worker"].ReadOnly)
	requireDoor(t, p)
}

// requireConsole: the console lets in whom its file of users names, with the password that the comments name, and finds the
// workers' broker.
func requireConsole(t *testing.T, p *types.Project) {
	t.Helper()
	s := p.Services["console"]
	require.True(t, s.ReadOnly)
	environ := make(map[string]string)
	for name, value := range s.Environment {
		environ[name] = *value
	}
	require.Equal(t, *p.Services["worker"].Environment["ORDERPOST_NATS_URL"], environ["ORDERPOST_NATS_URL"])
	var cfg console.Config
	require.NoError(t, cli.ReadEnv(&cfg, environ))
	require.NoError(t, cfg.Validate())
	require.Len(t, s.Ports, 1)
	require.True(t, strings.HasSuffix(cfg.Listen, fmt.Sprint(":", s.Ports[0].Target)))
	require.Equal(t, cfg.Users, s.Volumes[0].Target)
	text, err := os.ReadFile(s.Volumes[0].Source)
	require.NoError(t, err)
	_, hash, found := strings.Cut(string(text), "\ntry:operator:")
	require.True(t, found)
	require.NoError(t, bcrypt.CompareHashAndPassword([]byte(strings.TrimSpace(hash)), []byte("try-the-console")))
}

// requireDoor: the door lets in whom its file of clients names, over loopback, and finds the
// workers' broker.
func requireDoor(t *testing.T, p *types.Project) {
	t.Helper()
	s := p.Services["gateway"]
	require.True(t, s.ReadOnly)
	environ := make(map[string]string)
	for name, value := range s.Environment {
		environ[name] = *value
	}
	require.Equal(t, *p.Services["worker"].Environment["ORDERPOST_NATS_URL"], environ["ORDERPOST_NATS_URL"])
	var cfg gateway.Config
	require.NoError(t, cli.ReadEnv(&cfg, environ))
	require.NoError(t, cfg.Validate())
	require.Len(t, s.Ports, 1)
	require.True(t, strings.HasSuffix(cfg.Listen, fmt.Sprint(":", s.Ports[0].Target)))
	require.Len(t, s.Volumes, 1)
	require.Equal(t, cfg.Clients, s.Volumes[0].Target)
	requireConsole(t, p)
	text, err := os.ReadFile(s.Volumes[0].Source)
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("sha256-%x", sha256.Sum256([]byte("try"))), "the token that the comments name")
}

// TestComposeWithACluster: cluster.env is all that it takes. The lone server does
// not run: an import over port 4222 would end in it, where nobody works.
func TestComposeWithACluster(t *testing.T) {
	p := load(t, deployments+"cluster.env")
	names := p.ServiceNames()
	slices.Sort(names)
	require.Equal(t, []string{"console", "gateway", "grafana", "nats-1", "nats-2", "nats-3", "prometheus", "sandbox", "worker"}, names)
	require.Equal(t, "3", *p.Services["worker"].Environment["ORDERPOST_REPLICAS"])
	requireDoor(t, p)
	for i, name := range []string{"nats-1", "nats-2", "nats-3"} {
		require.Contains(t, *p.Services["worker"].Environment["ORDERPOST_NATS_URL"], name)
		require.Contains(t, p.Services[name].Command, name, "its own name")
		requireOnePublisher(t, p, name, fmt.Sprint(4222+i))
	}
}

// requireOnePublisher: the port of this machine leads to that server, and to
// no other; strangers on the network reach none.
func requireOnePublisher(t *testing.T, p *types.Project, want, port string) {
	t.Helper()
	var got []string
	for name, s := range p.Services {
		for _, published := range s.Ports {
			require.Equal(t, "127.0.0.1", published.HostIP, name)
			if published.Published == port {
				got = append(got, name)
				require.EqualValues(t, 4222, published.Target)
			}
		}
	}
	require.Equal(t, []string{want}, got)
}
