package uploads

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	patient.Main(m)
}

var anna = Person{Name: "anna", How: "login"}

func openStore(t testing.TB, dir string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Dir: dir}
	for _, c := range change {
		c(&cfg)
	}
	s, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func keep(t testing.TB, s *Store, name, content string) Upload {
	t.Helper()
	u, err := s.Keep(t.Context(), name, anna, strings.NewReader(content))
	require.NoError(t, err)
	return u
}

// onDisk lists the files of a store with their sizes, and checks their modes.
func onDisk(t testing.TB, s *Store) (names []string, size int64) {
	t.Helper()
	require.NoError(t, filepath.Walk(s.dir, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		if info.IsDir() {
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), path)
			return nil
		}
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
		if base := filepath.Base(path); base != metaFile && base != "lock" {
			names, size = append(names, base), size+info.Size()
		}
		return nil
	}))
	return names, size
}

// numbered is a CSV file of so many orders.
func numbered(from, to int) string {
	var b strings.Builder
	b.WriteString("order_no,timeout,qty\n")
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "U-%d,30,1\n", i)
	}
	return b.String()
}

var startBroker = queuetest.Start

// connect opens a queue that hardly waits for a broker that is away.
func connect(t testing.TB, s *queuetest.Broker, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	hasty := func(c *queue.Config) { c.BrokerWait = 50 * time.Millisecond }
	return queuetest.Open(t, s, "test", append([]func(*queue.Config){hasty}, change...)...)
}

func openDesk(t testing.TB, s *Store, q *queue.Queue) *Desk {
	t.Helper()
	all := jobs.NewJobs(context.Background())
	d := NewDesk(s, q, all, nil)
	t.Cleanup(d.Close)
	t.Cleanup(all.Close)
	return d
}

// checked uploads a file, checks it and returns the upload.
func checked(t testing.TB, d *Desk, name, content string, set ...importer.Reading) Upload {
	t.Helper()
	u := keep(t, d.store, name, content)
	for _, s := range set {
		require.NoError(t, arrange(d, u.ID, s))
	}
	require.NoError(t, d.Check(u.ID, anna, ""))
	return finished(t, d, u.ID)
}

// arrange sets how to read an upload, whatever it is now.
func arrange(d *Desk, id string, set importer.Reading) error {
	_, err := d.Arrange(id, anna, "", set)
	return err
}

// finished waits for an upload's job.
func finished(t testing.TB, d *Desk, id string) Upload {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, d.Wait(ctx, id))
	require.NoError(t, d.Failure(id))
	u, err := d.store.Get(id)
	require.NoError(t, err)
	return u
}

func imported(t testing.TB, d *Desk, id string, o importer.Sending) Upload {
	t.Helper()
	require.NoError(t, d.Import(t.Context(), id, anna, "", o))
	return finished(t, d, id)
}

// text reads an upload's content as the importer gets it.
func text(t testing.TB, s *Store, u Upload) string {
	t.Helper()
	c, err := s.open(&u, nil)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	var b bytes.Buffer
	for range 2 {
		b.Reset()
		_, err = c.Seek(0, 0)
		require.NoError(t, err)
		_, err = b.ReadFrom(c)
		require.NoError(t, err)
	}
	return b.String()
}
