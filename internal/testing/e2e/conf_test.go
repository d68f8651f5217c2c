package e2e

import (
	"os"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// conf is a configuration file as it is shipped, with the values of its variables.
type conf struct {
	file string
	vars map[string]string
}

// environment is held while a server's file is read, because nats-server takes the values of
// variables from the process's environment, which the other tests share.
var environment sync.Mutex

// options reads the file for a server on loopback, on a port of its own.
func (c *conf) options(t *testing.T) *server.Options {
	t.Helper()
	environment.Lock()
	defer environment.Unlock()
	for name, value := range c.vars {
		require.NoError(t, os.Setenv(name, value))
		defer os.Unsetenv(name) //nolint:errcheck // it was set
	}
	opts, err := server.ProcessConfigFile(c.file)
	require.NoError(t, err)
	opts.Host, opts.Port = "127.0.0.1", server.RANDOM_PORT
	opts.NoSigs, opts.NoLog = true, true
	return opts
}
