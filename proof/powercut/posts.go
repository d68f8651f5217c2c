package powercut

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// post is a request to the API to create an order.
type post struct {
	orderNo string
	// sent is the line at which the request left, answered that at which its answer
	// had been read, or its connection was closed.
	sent, answered int
	status         int
	// nth counts the requests for this order_no, from 0.
	nth int
}

// readPosts finds the requests to create orders, and their answers.
func (w *wire) readPosts(c *conn) error {
	out, in := &counted{r: bytes.NewReader(c.out.Bytes())}, &counted{r: bytes.NewReader(c.in.Bytes())}
	requests, answers := bufio.NewReader(out), bufio.NewReader(in)
	for {
		req, err := http.ReadRequest(requests)
		if err != nil {
			return nil // the end, or a request that was cut off
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil
		}
		// Where the API drops an answer, the end of the connection says that it is through.
		p := post{sent: lineOf(c.outAt, out.n-requests.Buffered()), answered: c.closed}
		if resp, err := http.ReadResponse(answers, req); err == nil {
			if _, err = io.Copy(io.Discard, resp.Body); err == nil {
				p.status, p.answered = resp.StatusCode, lineOf(c.inAt, in.n-answers.Buffered())
			}
		}
		if req.Method != http.MethodPost {
			continue
		}
		var order struct {
			OrderNo string `json:"order_no"`
		}
		if err := json.Unmarshal(body, &order); err != nil || order.OrderNo == "" {
			return fmt.Errorf("a request to %s without an order_no: %.80q", req.URL, body)
		}
		p.orderNo = order.OrderNo
		w.t.posts = append(w.t.posts, p)
	}
}

// counted counts the bytes that were read.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
