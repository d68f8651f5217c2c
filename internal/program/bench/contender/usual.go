package contender

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// WorkerOptions are those of a loop on the queue.
type WorkerOptions struct {
	URL      string // of the API
	NATS     string
	Stream   string
	Consumer string
	InFlight int
}

// RunUsual is the worker that most would write: consume, JSON into a map, sort,
// HMAC, net/http, plain ack when the API said 200. It keeps no results, and
// what fails is redelivered for ever.
func RunUsual(ctx context.Context, o WorkerOptions) error {
	nc, err := nats.Connect(o.NATS)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, o.Stream, o.Consumer)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: o.InFlight, MaxIdleConnsPerHost: o.InFlight}, Timeout: 30 * time.Second}
	slots := make(chan struct{}, o.InFlight)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if err := usualOrder(ctx, client, o.URL, msg); err != nil {
				log.Println(err)
			}
		}()
	}, jetstream.PullMaxMessages(max(o.InFlight, 500)))
	if err != nil {
		return err
	}
	<-ctx.Done()
	consuming.Stop()
	return nc.Flush()
}

func usualOrder(ctx context.Context, client *http.Client, url string, msg jetstream.Msg) error {
	var fields map[string]any
	if err := json.Unmarshal(msg.Data(), &fields); err != nil {
		return err
	}
	fields["timestamp"] = time.Now().UnixMilli()
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	signature, err := usualSignature(fields)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/order/create", bytes.NewReader(body))
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
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return msg.Ack()
}

func usualSignature(fields map[string]any) (string, error) {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)
	pairs := make([]string, 0, len(names))
	for _, name := range names {
		switch value := fields[name].(type) {
		case map[string]any, []any, nil:
			text, err := json.Marshal(value)
			if err != nil {
				return "", err
			}
			pairs = append(pairs, name+"="+string(text))
		default:
			pairs = append(pairs, fmt.Sprintf("%s=%v", name, value))
		}
	}
	mac := hmac.New(sha256.New, []byte(APISecret))
	mac.Write([]byte(strings.Join(pairs, "&")))
	return hex.EncodeToString(mac.Sum(nil)), nil
}
