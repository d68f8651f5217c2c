package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

// postgresUser is the superuser of the database.
const postgresUser = "bench"

// postgresSettings keep what makes Postgres durable, and give it the room that its
// documents advise. It listens on a socket in the trial's folder only.
var postgresSettings = []string{"fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=512MB", "max_wal_size=4GB", "listen_addresses="}

// startPostgres makes a database in the trial's folder and starts its server.
func (d *durableTrial) startPostgres(ctx context.Context) error {
	programs, err := findPostgres()
	if err != nil {
		return fmt.Errorf("%w: %w", errLeftOut, err)
	}
	as, err := notRoot(d.dir)
	if err != nil {
		return fmt.Errorf("%w: postgres does not run as root: %w", errLeftOut, err)
	}
	data := filepath.Join(d.dir, "data")
	initdb := append(slices.Clip(as), filepath.Join(programs, "initdb"), "-D", data, "-U", postgresUser, "-A", "trust", "-E", "UTF8", "--locale=C")
	cmd := exec.CommandContext(ctx, initdb[0], initdb[1:]...)
	cmd.Dir = d.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := append(slices.Clip(as), filepath.Join(programs, "postgres"), "-D", data, "-k", d.dir)
	for _, s := range postgresSettings {
		server = append(server, "-c", s)
	}
	p, err := d.startWatched("postgres", data, os.Environ(), server...)
	if err != nil {
		return err
	}
	for {
		if text, err := os.ReadFile(filepath.Join(data, "postmaster.pid")); err == nil && bytes.Contains(text, []byte("\nready")) {
			p.mark()
			return nil
		}
		if err := p.lookAgain(ctx); err != nil {
			return err
		}
	}
}

// findPostgres returns the folder of the server's programs. Debian keeps them out of PATH.
func findPostgres() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	if versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin"); len(versions) > 0 { // the pattern is valid
		return slices.Max(versions), nil
	}
	return "", errors.New("postgres is not installed (apt-get install postgresql)")
}

// notRoot returns the beginning of a command that does not run as root, and gives the
// folder to the user that it runs as.
func notRoot(folder string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	return []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"}, os.Chown(folder, uid, -1)
}
