package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// residentAndFiles returns a process's memory in MiB and its number of open files.
func residentAndFiles(pid int) (resident, files float64, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return 0, 0, err
	}
	kib, err := field(strings.NewReader(string(status)), "VmRSS:")
	if err != nil {
		return 0, 0, err
	}
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	return kib / 1024, float64(len(open)), err
}

// profiled returns the number that follows a text in a profile of a worker or a
// nats-server.
func profiled(ctx context.Context, addr, profile, before string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/debug/pprof/"+profile, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if n, found := strings.CutPrefix(lines.Text(), before); found {
			_, _ = io.Copy(io.Discard, res.Body)
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, fmt.Errorf("%s: no %q in the profile", addr, before)
}

// field returns the number after a name at the beginning of a line.
func field(text io.Reader, name string) (float64, error) {
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			return strconv.ParseFloat(words[1], 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}

// diskUsed returns the size of all the brokers' files in MiB.
func (r *rig) diskUsed() (float64, error) {
	dirs := []string{r.dataDir()}
	for _, n := range r.nodes {
		dirs = append(dirs, r.storeDir(n.name))
	}
	total := int64(0)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				var info fs.FileInfo
				if info, err = d.Info(); err == nil {
					total += info.Size()
				}
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return float64(total) / (1 << 20), nil
}
