package patient

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory returns a figure of a process in MiB, as Linux names it: VmRSS is what is resident,
// VmHWM the most that ever was. It skips the test on other systems.
func Memory(t testing.TB, pid int, figure string) (mib float64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("this system does not tell how much memory a process takes")
	}
	_, text, _ := strings.Cut(string(status), figure+":")
	_, err = fmt.Sscan(text, &mib)
	require.NoError(t, err)
	return mib / 1024
}
