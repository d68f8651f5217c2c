package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"orderpost/internal/submit/answer"
)

// FuzzAnswer reads whatever a server may send. What is taken for a complete
// answer is the same that net/http takes it for.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{okAnswer, okAnswer + okAnswer, "HTTP/1.1 100 Continue\r\n\r\n" + okAnswer,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na;x=y\r\n{\"code\":0}\r\n0\r\nX-T: z\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n{\"code\":0}", "HTTP/1.1 101 S\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nabcdef",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
		"HTTP/1.2 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na;x=y\r\n{\"code\":0}\r\n0\r\nX-T: z\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		status, body, err := readWhole(text)
		require.LessOrEqual(t, len(body), answer.MaxBody)
		if err != nil || status == http.StatusSwitchingProtocols {
			return
		}
		require.True(t, status >= 200 && status <= 999, "%d", status)
		theirs, theirErr := netAnswer(text)
		if theirErr != nil {
			return // it is the stricter one in some things
		}
		for name := range theirs.Header {
			if strings.ContainsAny(name, " \t") {
				return // we cut off blanks before the colon (RFC 9112 section 5.1); net/http takes them for a part of the name
			}
		}
		require.Equal(t, theirs.StatusCode, status)
		all, theirErr := io.ReadAll(theirs.Body)
		if theirErr == nil && theirs.Header.Get("Content-Encoding") == "" {
			require.Equal(t, string(all), string(body))
		}
	})
}

func readWhole(text []byte) (status int, body []byte, err error) {
	var resp fasthttp.Response
	src := bytes.NewReader(text)
	r, err := readHeader(&resp, bufio.NewReaderSize(src, 4<<10), src)
	if err != nil {
		return 0, nil, err
	}
	if status = resp.StatusCode(); status == http.StatusSwitchingProtocols {
		return status, nil, nil
	}
	body, err = readBody(&resp, r)
	return status, body, err
}

func netAnswer(text []byte) (*http.Response, error) {
	r := bufio.NewReader(bytes.NewReader(text))
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

func TestTheLastAnswerOnAConnection(t *testing.T) {
	for head, last := range map[string]bool{"": false, "Connection: keep-alive\r\n": false, "Connection: close\r\n": true, "Connection: Close\r\n": true,
		"Connection: Keep-Alive, close\r\n": true} {
		eachScheme(t, func(t *testing.T, w *way) {
			c := w.client(t, w.raw(t, answering("HTTP/1.1 200 OK\r\n"+head+"Content-Length: 10\r\n\r\n{\"code\":0}")).url(), nil)
			c.accepted(t)
			require.Equal(t, !last, c.accepted(t).Reused, head)
		})
	}
}

// What no header can hold is not sent; it could be a second header.
func TestHeaderValues(t *testing.T) {
	w := &way{}
	s := w.raw(t, answering(okAnswer))
	c := w.client(t, s.url(), nil)
	for _, r := range []Order{{Key: "a\r\nX-B: c"}, {Signature: "a\nb"}, {Traceparent: "\x7f"}, {Key: "\x00"}} {
		x := c.Post(t.Context(), r)
		require.Equal(t, PhaseSend, x.Phase)
		require.ErrorIs(t, x.Err, errHeaderValue)
	}
	require.Zero(t, s.requests.Load())
}
