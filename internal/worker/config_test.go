package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/worker"
)

// A folder with a blank, a line end or a quote around its name is another one, and its books
// are empty.
func TestADataFolderWithWhatAFileOfSettingsLeft(t *testing.T) {
	for dir, right := range map[string]bool{"data": true, "/var/lib/my orders": true, "data\r": false, "/data ": false, `"/data"`: false, "'/data'": false} {
		var cfg worker.Config
		require.NoError(t, program.ReadEnv(&cfg, map[string]string{"ORDERPOST_API_URL": "http://127.0.0.1:1", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s", "ORDERPOST_DATA_DIR": dir}))
		if right {
			require.NoError(t, cfg.Normalize().Validate(), dir)
			continue
		}
		require.ErrorContains(t, cfg.Normalize().Validate(), "ORDERPOST_DATA_DIR: ", dir)
	}
}
