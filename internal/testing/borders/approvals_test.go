package borders

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// acting are the files that do what ORDERPOST_APPROVALS may ask a second person for: resolve,
// replay, set the limit. Each is only called once approval.Begin has begun the act: by
// broker.Person.Act in commands, by visit.act and startGroup in the console, and by a Carrier for
// what was approved. Whoever adds a file here sees to that.
var acting = []string{
	"internal/approval/carry.go", "internal/console/fleetacts.go", "internal/console/letteracts.go",
	"internal/deadletter/deed.go", "internal/cli/deadletter/resolve.go", "internal/cli/reconcile/apply.go", "internal/cli/worker/fleet.go",
}

// TestNoActGoesRoundApprovals: nothing else in the programs does such an act.
func TestNoActGoesRoundApprovals(t *testing.T) {
	does := regexp.MustCompile(`Operator\.(Replay|Resolve|ResolveLetter)\(|\.SetLimit(After)?\(ctx`)
	root := filepath.Join("..", "..", "..")
	var found []string
	for _, dir := range []string{"internal", "client", "cmd"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil && does.Match(text) {
				path, err = filepath.Rel(root, path)
				found = append(found, filepath.ToSlash(path))
			}
			return err
		}))
	}
	require.ElementsMatch(t, acting, found)
}
