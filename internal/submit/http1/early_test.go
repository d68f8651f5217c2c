package http1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnEarlyRefusalIsAnAnswer: an API refuses an order once it has read the headers, and reads no more, whether the
// body fits into the sockets' buffers or not. It keeps the connection, ends its side, or closes it.
func TestAnEarlyRefusalIsAnAnswer(t *testing.T) {
	t.Parallel()
	const refusal = "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\n{}"
	const success = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
	for name, c := range map[string]struct {
		answer string
		size   int
		then   func(*net.TCPConn)
		phase  Phase
	}{
		"keeps the connection":                  {refusal, 900_000, nil, PhaseDone},
		"keeps it, and the body does not fit":   {refusal, 30_000_000, nil, PhaseDone},
		"ends its side":                         {refusal, 30_000_000, func(c *net.TCPConn) { _ = c.CloseWrite() }, PhaseDone},
		"a small one":                           {refusal, 100, nil, PhaseDone},
		"an early success of what does not fit": {success, 30_000_000, nil, PhaseSent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = api.Close() })
			go func() {
				for {
					conn, err := api.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = conn.Close() })
					r := textproto.NewReader(bufio.NewReader(conn))
					if _, err := r.ReadLine(); err != nil {
						continue
					}
					_, _ = r.ReadMIMEHeader()
					_, _ = io.WriteString(conn, c.answer)
					if c.then != nil {
						c.then(conn.(*net.TCPConn))
					}
				}
			}()
			cfg := testConfig("http://" + api.Addr().String())
			cfg.RequestTimeout = 9 * time.Second // a blocked write takes 5/6 of it; the rest is for a busy machine
			client, err := New(cfg)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			for range 2 {
				x := client.Post(t.Context(), Order{No: "A-1", Key: "k", Body: bytes.Repeat([]byte("x"), c.size)})
				require.Equal(t, c.phase, x.Phase, "%v", x.Err)
				if c.phase == PhaseDone {
					require.Equal(t, http.StatusRequestEntityTooLarge, x.Answer.Status)
				}
			}
		})
	}
}
