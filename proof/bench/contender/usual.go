package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// usualWorker is the worker that most would write: Consume, JSON into a map,
// sign, net/http. It publishes what the API said to a stream and acknowledges the
// order only after the broker has confirmed it.
type usualWorker struct {
	o      WorkerOptions
	js     jetstream.JetStream
	signer *sign.Signer
	client *http.Client
}

// RunUsual works until ctx ends, with o.InFlight orders in flight.
func RunUsual(ctx context.Context, o WorkerOptions) error {
	signer, err := sign.New(APISecret)
	if err != nil {
		return err
	}
	link, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	w := &usualWorker{o: o, js: link.js, signer: signer, client: netClient(o.InFlight)}
	slots := make(chan struct{}, o.InFlight)
	consuming, err := link.consumer.Consume(func(msg jetstream.Msg) {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if err := w.handle(ctx, msg); err != nil {
				log.Println(err)
				_ = msg.NakWithDelay(retryDelay) // if it is lost, AckWait brings the order back
			}
		}()
	}, jetstream.PullMaxMessages(prefetch(o.InFlight)))
	if err != nil {
		return err
	}
	<-ctx.Done()
	consuming.Stop()
	return link.Flush()
}

// netClient keeps a connection for each order in flight.
func netClient(inFlight int) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConns: inFlight, MaxIdleConnsPerHost: inFlight, DisableCompression: true}}
}

func (w *usualWorker) handle(ctx context.Context, msg jetstream.Msg) error {
	var fields map[string]any
	if err := json.Unmarshal(msg.Data(), &fields); err != nil {
		return err
	}
	number, _ := fields["order_no"].(string)
	if number == "" {
		return errors.New("an order without order_no")
	}
	parsed, err := order.Parse(msg.Data())
	if err != nil {
		return err
	}
	body, signature, err := w.signer.Sign(nil, parsed, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	status, answer, err := w.post(ctx, body, signature)
	if err != nil {
		return err
	}
	if status >= http.StatusInternalServerError {
		return fmt.Errorf("order %s: status %d: %s", number, status, answer)
	}
	if err := w.store(ctx, number, status, answer); err != nil {
		return fmt.Errorf("order %s: its outcome is not stored: %w", number, err)
	}
	return msg.Ack()
}

func (w *usualWorker) post(ctx context.Context, body []byte, signature string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL+orderPath, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", APIKey)
	req.Header.Set("X-Signature", signature)
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// store publishes the outcome and waits until the broker has confirmed it.
func (w *usualWorker) store(ctx context.Context, number string, status int, answer []byte) error {
	data, err := json.Marshal(outcome{OrderNo: number, Status: status, Answer: string(answer), At: time.Now().UTC()})
	if err != nil {
		return err
	}
	future, err := w.js.PublishAsync(w.o.Outcomes+number, data)
	if err != nil {
		return err
	}
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
