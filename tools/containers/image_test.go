package containers

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImage: the image holds one program and the certificates, and its user, who is not root,
// may write to the volume alone.
func TestImage(t *testing.T) {
	const image = "localhost/orderpost-orderpost"
	require.Equal(t, "65532:65532", podman(t, "image", "inspect", "--format", "{{.User}}", image))
	root := podman(t, "image", "mount", image)
	var files []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		if !d.IsDir() {
			files = append(files, name)
		}
		writable := info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0 || info.Sys().(*syscall.Stat_t).Uid != 0
		require.Equal(t, name == "data", writable, "%s: %s", name, info.Mode())
		return nil
	}))
	require.Equal(t, []string{
		"etc/ssl/certs/ca-certificates.crt",
		"usr/local/bin/deadletter", "usr/local/bin/enqueue", "usr/local/bin/orderpost", "usr/local/bin/worker",
	}, files)
}

// TestPrograms: each image has the programs it is for, and none of another. Docker's version
// argument reaches them.
func TestPrograms(t *testing.T) {
	for image, programs := range map[string]string{"orderpost": "orderpost worker enqueue deadletter", "sandbox": "sandbox demo", "operator": "orderpost worker enqueue deadletter"} {
		for _, program := range strings.Fields("orderpost worker enqueue deadletter sandbox demo sh") {
			var said bytes.Buffer
			err := command(&said, "run", "--rm", "--entrypoint", program, "localhost/orderpost-"+image, "--version").Run()
			if strings.Contains(" "+programs+" ", " "+program+" ") {
				require.NoError(t, err, "%s in %s: %s", program, image, &said)
				require.Equal(t, program+" version v0.0.0-ci\n", said.String(), image)
			} else if image != "operator" || program != "sh" {
				require.Error(t, err, "%s in %s", program, image)
				require.Contains(t, said.String(), "not found", "%s in %s", program, image)
			}
		}
	}
}

// TestLabels: each image says what it is, of which version and commit, and by whom.
func TestLabels(t *testing.T) {
	for image, title := range map[string]string{"orderpost": "orderpost", "sandbox": "orderpost-sandbox", "operator": "orderpost-operator"} {
		var labels map[string]string
		require.NoError(t, json.Unmarshal([]byte(podman(t, "image", "inspect", "--format", "{{json .Labels}}", "localhost/orderpost-"+image)), &labels))
		for name, value := range map[string]string{"title": title, "version": "v0.0.0-ci", "vendor": "orderpost maintainers"} {
			require.Equal(t, value, labels["org.opencontainers.image."+name], image)
		}
		require.Len(t, labels["org.opencontainers.image.revision"], 40, image)
	}
}

// TestOneContainer is the worker of docs/operations.md#container: without ORDERPOST_NATS_URL, it stores
// orders in its volume. They outlive its process, which is killed, and its container.
func TestOneContainer(t *testing.T) {
	start(t, "api", "localhost/orderpost-sandbox")
	t.Cleanup(func() { podman(t, "volume", "rm", "orders") })
	worker := start(t, "lone", "--read-only", "--read-only-tmpfs=false", "--volume", "orders:/data", "--restart", "unless-stopped", "--stop-timeout", "45",
		"--env", "ORDERPOST_API_URL=http://127.0.0.1:8089", "--env", "ORDERPOST_API_KEY=sandbox-key", "--env", "ORDERPOST_API_SECRET=sandbox-secret",
		"localhost/orderpost-orderpost")
	worker.requireHealthy()
	enqueue := func() *bytes.Buffer {
		var said bytes.Buffer
		cmd := command(&said, "exec", "--interactive", worker.name, "enqueue", "-", "--wait")
		cmd.Stdin = strings.NewReader("order_no,timeout\nC-1,30\nC-2,30\n")
		require.NoError(t, cmd.Run(), "%s", &said)
		return &said
	}
	t.Logf("enqueue:\n%s", enqueue())
	worker.kill()
	worker.requireHealthy()
	worker.recreate()
	worker.requireHealthy()
	t.Logf("enqueue once more:\n%s", enqueue())
	t.Logf("audit:\n%s", podman(t, "exec", worker.name, "orderpost", "audit"))
	require.EqualValues(t, 2, ledger(t).Creations)
	worker.stop()
}
