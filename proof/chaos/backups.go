package chaos

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"orderpost/internal/cli"
)

// backupEvery is the pause between two backups.
const backupEvery = 5 * time.Second

// backUpAll makes backups while faults come and go, and restores each into a folder of its own: as of the
// moment when it was made, the books balance.
func (r *rig) backUpAll(ctx context.Context, enough <-chan struct{}) error {
	for !r.o.bitRot && pauseUntil(ctx, enough, backupEvery) {
		dir, err := os.MkdirTemp(r.dir, "backup-")
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "file")
		restored := []string{"ORDERPOST_NATS_URL=", "ORDERPOST_REPLICAS=1", "ORDERPOST_DATA_DIR=" + filepath.Join(dir, "data")}
		if r.command(ctx, always, "orderpost", "backup", file, "--by", "chaos") == cli.ExitDone &&
			r.commandWith(ctx, restored, always, "orderpost", "restore", file) == cli.ExitDone &&
			r.commandWith(ctx, restored, always, "orderpost", "audit") == cli.ExitDone {
			err = os.RemoveAll(dir) // what failed is kept
		}
		if err != nil {
			return err
		}
	}
	return nil
}
