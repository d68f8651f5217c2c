package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// A stray acceptance of another order lies on a kept connection behind each
// refusal. None of the refused orders may be recorded as accepted.
func TestStrayAcceptancesAreNobodys(t *testing.T) {
	for _, stray := range []string{`{"data":{"order_no":"OTHER"}}`, `{"code":0}`} {
		eachScheme(t, func(t *testing.T, w *way) {
			t.Run(stray, func(t *testing.T) {
				late := strings.Contains(stray, "OTHER") // only its number tells that one which comes late
				s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
					for s.read(r) {
						refusal := "HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\n{}"
						extra := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(stray), stray)
						if late && s.requests.Load()%2 == 0 {
							io.WriteString(conn, extra+refusal)
						} else {
							io.WriteString(conn, refusal+extra)
						}
					}
				})
				c := w.client(t, s.url(), nil)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						for range 5 {
							_, j := c.try(t)
							assert.NotEqual(t, order.Accepted, j.Verdict, j.Reason)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// Of two answers to one request, either may be another request's: not even a refusal is believed.
func TestARefusalWithAnAnswerBehindItIsInDoubt(t *testing.T) {
	for _, status := range []string{"400 X", "429 X"} {
		eachWay(t, func(t *testing.T, w *way) {
			s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
				for s.read(r) {
					io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
				}
			})
			_, j := w.client(t, s.url(), nil).try(t)
			require.Equal(t, order.Unsure, j.Verdict, j.Reason)
		})
	}
}

func TestAnswerAboutAnotherOrderEndsItsConnection(t *testing.T) {
	eachWay(t, func(t *testing.T, w *way) {
		s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			for s.read(r) {
				body := `{"data":{"order_no":"OTHER-1"}}`
				if s.requests.Load() > 2 {
					body = `{"data":{"order_no":"n"}}`
				}
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
		})
		c := w.client(t, s.url(), nil)
		for _, reused := range []bool{false, false, false, true} {
			x, _ := c.try(t)
			require.NoError(t, x.Err)
			require.Equal(t, reused, x.Reused)
		}
		require.EqualValues(t, 4, s.requests.Load())
	})
}

func TestAnAPIWithItsOwnNumbersKeepsItsConnections(t *testing.T) {
	s := (&way{}).raw(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n"+`{"order_no":"OTHER-1"}`))
	c := (&way{}).client(t, s.url(), func(c *Config) { c.OtherOrderNo = func() bool { return true } })
	for _, reused := range []bool{false, true} {
		x, _ := c.try(t)
		require.NoError(t, x.Err)
		require.Equal(t, reused, x.Reused)
	}
}

func TestStatusThatIsNone(t *testing.T) {
	for _, status := range []string{"000", "0", "099", "-20", "2", "20x", "2000"} {
		eachWay(t, func(t *testing.T, w *way) {
			s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
				s.read(r)
				io.WriteString(conn, "HTTP/1.1 "+status+" OK\r\nContent-Length: 10\r\n\r\n{\"code\":0}")
			})
			_, j := w.client(t, s.url(), nil).try(t)
			require.Equal(t, order.Unsure, j.Verdict, "%s: %s", status, j.Reason)
		})
	}
}

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
