package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// redisSettings make Redis sync what it confirms, and log to its output.
var redisSettings = []string{"--port", "0", "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"}

// startRedis starts a server in the trial's folder, and returns its socket.
func (d *durableTrial) startRedis(ctx context.Context) (socket string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w: redis is not installed (apt-get install redis-server): %w", errLeftOut, err)
	}
	socket = filepath.Join(d.dir, "redis.sock")
	p, err := d.startWatched("redis", d.dir, os.Environ(), append([]string{path, "--dir", d.dir, "--unixsocket", socket}, redisSettings...)...)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(socket); err == nil {
			p.mark()
			return socket, nil
		}
		if err := p.lookAgain(ctx); err != nil {
			return "", err
		}
	}
}
