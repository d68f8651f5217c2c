package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// poster posts orders as the usual worker of the bench does, with net/http.
type poster struct {
	url, key string
	signer   *sign.Signer
	client   *http.Client
}

func newPoster(o options) (*poster, error) {
	signer, err := sign.New(o.secret)
	if err != nil {
		return nil, err
	}
	return &poster{url: o.url + "/v1/order/create", key: o.key, signer: signer, client: &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{MaxIdleConns: o.slots, MaxIdleConnsPerHost: o.slots, DisableCompression: true}}}, nil
}

// answer is the outcome that is stored of each order.
type answer struct {
	Status int       `json:"status"`
	Body   string    `json:"body"`
	At     time.Time `json:"at"`
}

// post sends one order. The error says that it has to be sent again.
func (p *poster) post(ctx context.Context, data []byte) (a answer, err error) {
	parsed, err := order.Parse(data)
	if err != nil {
		return a, err
	}
	body, signature, err := p.signer.Sign(nil, parsed, time.Now().UnixMilli())
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", p.key)
	req.Header.Set("X-Signature", signature)
	resp, err := p.client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusInternalServerError {
		err = fmt.Errorf("order %s: status %d: %s", parsed.OrderNo(), resp.StatusCode, text)
	}
	return answer{Status: resp.StatusCode, Body: string(text), At: time.Now().UTC()}, err
}
