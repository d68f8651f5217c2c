//go:build unix

package http1

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The server half-closes after the connection was looked at and before the wait
// begins: the poller reported that already and does not report it again. The request
// must not wait for its timeout.
func TestWhatArrivesBeforeTheWaitEndsIt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer dialed.Close()
	server, err := ln.Accept()
	require.NoError(t, err)
	defer server.Close()

	c := &conn{socket: &socket{Conn: dialed}}
	c.Conn = c.socket
	require.NoError(t, c.checkIdle(time.Now()))
	require.NoError(t, server.(*net.TCPConn).CloseWrite())
	raw, err := c.socket.rawConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.Eventually(t, func() bool { return arrived(fd) }, time.Minute, time.Millisecond)
	}))
	returned := make(chan error, 1)
	go func() {
		writeErr, late := c.send(t.Context(), []byte("POST"), time.Hour, time.Now().Add(time.Hour))
		returned <- errors.Join(writeErr, late)
	}()
	select {
	case err := <-returned:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the request waits for something new")
	}
}
