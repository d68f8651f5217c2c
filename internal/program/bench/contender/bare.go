package contender

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// LoopOptions are those of a loop without a queue.
type LoopOptions struct {
	URL      string
	CA       string // file with the certificate to trust
	Orders   int64
	InFlight int
	// Fast: by fasthttp instead of net/http.
	Fast bool
}

// distinct is how many orders are parsed before a bare loop begins; it posts
// them over and over, each time with a new timestamp and signature.
const distinct = 1024

// RunBare is the loop without any queue: stamp, sign, POST, read the answer. It
// keeps no books and tries nothing twice.
func RunBare(ctx context.Context, o LoopOptions) error {
	signer, err := sign.New(APISecret)
	if err != nil {
		return err
	}
	orders := make([]*order.Order, distinct)
	for i := range orders {
		if orders[i], err = order.Parse(Order(i, time.Now())); err != nil {
			return err
		}
	}
	newPost := postNet
	if o.Fast {
		newPost = postFast
	}
	post, err := newPost(o)
	if err != nil {
		return err
	}
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range o.InFlight {
		all.Go(func() {
			var buf []byte
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= o.Orders {
					return
				}
				body, signature, err := signer.Sign(buf[:0], orders[i%distinct], time.Now().UnixMilli())
				if err == nil {
					err = post(body, signature)
				}
				if err != nil {
					failed.Add(1)
				}
				buf = body
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%d orders failed", n)
	}
	return ctx.Err()
}

type postFunc func(body []byte, signature string) error

// postNet posts as most programs do, with room for all connections.
func postNet(o LoopOptions) (postFunc, error) {
	trust, err := trusted(o.CA)
	if err != nil {
		return nil, err
	}
	client := netClient(o.InFlight, trust)
	url := o.URL + orderPath
	return func(body []byte, signature string) error {
		req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-API-Key", APIKey)
		req.Header.Set("X-Signature", signature)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}, nil
}

func postFast(o LoopOptions) (postFunc, error) {
	client, err := fastClient(o.URL, o.CA, o.InFlight)
	if err != nil {
		return nil, err
	}
	url := o.URL + orderPath
	return func(body []byte, signature string) error {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.SetRequestURI(url)
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetContentType("application/json")
		req.Header.Set("X-API-Key", APIKey)
		req.Header.Set("X-Signature", signature)
		req.SetBodyRaw(body)
		if err := client.Do(req, resp); err != nil {
			return err
		}
		if resp.StatusCode() != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode())
		}
		return nil
	}, nil
}
