package chaos

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers every line with itself.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer c.Close(); _, _ = io.Copy(c, c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}

func through(t *testing.T) (*proxy, net.Conn, *bufio.Reader) {
	p, err := newProxy(echo(t))
	require.NoError(t, err)
	t.Cleanup(p.close)
	c, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := bufio.NewReader(c)
	say(t, c, "first\n")
	hear(t, c, r, "first\n")
	return p, c, r
}

func say(t *testing.T, c net.Conn, line string) {
	_, err := io.WriteString(c, line)
	require.NoError(t, err)
}

func hear(t *testing.T, c net.Conn, r *bufio.Reader, want string) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func hearNothing(t *testing.T, c net.Conn, r *bufio.Reader) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := r.ReadByte()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestHeldBytesArriveLater(t *testing.T) {
	for name, tr := range map[string]trouble{
		"black hole": {HoldUp: true, HoldDown: true}, "no way up": {HoldUp: true}, "no way down": {HoldDown: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, c, r := through(t)
			p.set(tr)
			say(t, c, "second\n")
			hearNothing(t, c, r)
			p.set(trouble{})
			hear(t, c, r, "second\n")
		})
	}
}

func TestDelay(t *testing.T) {
	p, c, r := through(t)
	const each = 30 * time.Millisecond
	p.set(trouble{Delay: each})
	from := time.Now()
	say(t, c, "second\n")
	hear(t, c, r, "second\n")
	require.GreaterOrEqual(t, time.Since(from), 2*each, "there and back")
}

func TestCutAndRefuse(t *testing.T) {
	p, c, r := through(t)
	p.set(trouble{Refuse: true})
	p.cut()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := r.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is gone, not silent")
	again, err := net.Dial("tcp", p.addr())
	require.NoError(t, err) // the kernel accepts, the proxy hangs up
	defer again.Close()
	require.NoError(t, again.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = again.Read(make([]byte, 1))
	require.Error(t, err)

	p.set(trouble{})
	healed, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	defer healed.Close()
	say(t, healed, "back\n")
	hear(t, healed, bufio.NewReader(healed), "back\n")
}

// TestBytesOutliveTheirSender: a request whose client gave up is delivered all
// the same once the network recovers.
func TestBytesOutliveTheirSender(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p, err := newProxy(l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.close)
	p.set(trouble{HoldUp: true})
	c, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	say(t, c, "late\n")
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	hearNothing(t, server, bufio.NewReader(server))
	require.NoError(t, c.Close())
	p.set(trouble{})
	hear(t, server, bufio.NewReader(server), "late\n")
}

// Bytes are counted from the server's first one, and only on new connections.
func TestConnectionsThatAreCutShort(t *testing.T) {
	p, old, oldR := through(t)
	p.set(trouble{Short: 9})
	c, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	defer c.Close()
	say(t, c, "first\n")
	r := bufio.NewReader(c)
	hear(t, c, r, "first\n")
	say(t, c, "second\n")
	rest, err := io.ReadAll(r)
	require.Equal(t, "sec"[:len(rest)], string(rest), "a reset may overtake what came before it")
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	say(t, old, "still\n")
	hear(t, old, oldR, "still\n")
}
