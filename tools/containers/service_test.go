package containers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// load reads compose.yaml as docker compose does.
func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../deployments/compose.yaml"}, cli.WithEnvFiles(), cli.WithDotEnv, cli.WithDefaultProfiles())
	require.NoError(t, err)
	p, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return p
}

// arguments are those of podman run for the service, with its metrics at the port. It fails for a service that says something
// that it does not translate, so that nothing of compose.yaml goes untried without being noticed.
func arguments(t *testing.T, p *types.Project, s types.ServiceConfig, port int) []string {
	t.Helper()
	args := []string{"--env", fmt.Sprintf("ORDERPOST_OPS_ADDR=127.0.0.1:%d", port)}
	for _, name := range p.ServiceNames() {
		args = append(args, "--add-host", name+":127.0.0.1")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		args = append(args, "--env", name+"="+*s.Environment[name])
	}
	for _, v := range s.Volumes {
		mount := v.Source + ":" + v.Target
		if v.ReadOnly {
			mount += ":ro"
		}
		args = append(args, "--volume", mount)
	}
	if s.ReadOnly {
		args = append(args, "--read-only", "--read-only-tmpfs=false")
	}
	if s.Restart != "" {
		args = append(args, "--restart", s.Restart)
	}
	if s.StopGracePeriod != nil {
		args = append(args, "--stop-timeout", strconv.Itoa(int(time.Duration(*s.StopGracePeriod).Seconds())))
	}
	command := s.Command
	if s.Entrypoint != nil {
		args = append(args, "--entrypoint", s.Entrypoint[0])
		command = slices.Concat(types.ShellCommand(s.Entrypoint[1:]), s.Command)
	}
	args = append(slices.Concat(args, []string{image(s)}), command...)

	s.Environment, s.Volumes, s.ReadOnly, s.Restart, s.StopGracePeriod, s.Command, s.Entrypoint = nil, nil, false, "", nil, nil, nil
	s.Name, s.Image, s.Build, s.Profiles, s.DependsOn = "", "", nil, nil, nil
	s.Networks, s.Ports = nil, nil // there is one network, and every port is open on its loopback
	require.Zero(t, s, "what this test does not translate")
	return args
}

// image is what the service runs: an image by its name, or that of the target it builds.
func image(s types.ServiceConfig) string {
	if s.Build == nil {
		return s.Image
	}
	return "localhost/orderpost-" + s.Build.Target
}
