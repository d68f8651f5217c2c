package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"orderpost/internal/notify"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// doors are the ways of other programs to orderpost and back, which take part in a run: an
// HTTP door with producers, and two senders of webhooks with one receiver. A nil doors takes
// no part.
type doors struct {
	gateway  *process
	url      string // of the HTTP door
	senders  []*process
	receiver *receiver
}

// posters is how many HTTP requests of the producer are under way at most, and postsPart the
// part of the run's rate that comes over HTTP, beside those that come over NATS.
const (
	posters   = 16
	postsPart = 0.25
)

// openDoors starts them. The brokers run, and have their streams.
func (r *rig) openDoors() (err error) {
	if !r.o.doors {
		return nil
	}
	r.doors = &doors{}
	if r.doors.receiver, err = newReceiver(r.o.seed); err != nil {
		return err
	}
	listen, err := freeAddrs(1)
	if err != nil {
		return err
	}
	// one sender signs with two secrets, as while the receiver's is being changed
	secrets := [...]string{r.doors.receiver.secret, notify.NewSecret() + "\n" + r.doors.receiver.secret}
	env := append(os.Environ(), "ORDERPOST_OPS_ADDR=", "ORDERPOST_LOG_FORMAT=json", "ORDERPOST_NATS_CONNECT_TIMEOUT=5s", "ORDERPOST_DATA_DIR="+r.dataDir())
	if r.nodes != nil {
		urls, err := r.brokerURL()
		if err != nil {
			return err
		}
		env = append(env, "ORDERPOST_NATS_URL="+urls)
	}
	door := func(name, command string, more ...string) *process {
		return &process{name: name, history: r.history, path: r.bin["orderpost"], args: []string{command}, env: append(env[:len(env):len(env)], more...), log: filepath.Join(r.dir, name+".log")}
	}
	r.doors.gateway, r.doors.url = door("gateway", "gateway", "ORDERPOST_GATEWAY_LISTEN="+listen[0]), "http://"+listen[0]
	for i, secret := range secrets {
		file := filepath.Join(r.dir, fmt.Sprintf("notify-secret-%d", i+1))
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			return err
		}
		r.doors.senders = append(r.doors.senders, door(fmt.Sprintf("notify-%d", i+1), "notify",
			"ORDERPOST_NOTIFY_URL="+r.doors.receiver.url(), "ORDERPOST_NOTIFY_SECRET_FILE="+file, "ORDERPOST_NOTIFY_BEGIN=oldest"))
	}
	for _, p := range r.doors.processes() {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func (d *doors) processes() []*process {
	if d == nil {
		return nil
	}
	return append([]*process{d.gateway}, d.senders...)
}

func (d *doors) close() {
	if d != nil && d.receiver != nil {
		d.receiver.close()
	}
}

// faults are those that only a run with doors has.
func doorFaults() []fault {
	gateway := func(r *rig, _ *rand.Rand) *process { return r.doors.gateway }
	sender := func(r *rig, draw *rand.Rand) *process { return r.doors.senders[draw.IntN(len(r.doors.senders))] }
	return []fault{
		{name: "kill-gateway", what: "SIGKILL to the HTTP door, with requests under way", weight: 2, part: doorsPart,
			least: 100 * time.Millisecond, most: 2 * time.Second, inject: stopDoor(gateway, syscall.SIGKILL)},
		{name: "stop-gateway", what: "SIGTERM to the HTTP door", weight: 1, part: doorsPart,
			least: 100 * time.Millisecond, most: 2 * time.Second, inject: stopDoor(gateway, syscall.SIGTERM)},
		{name: "kill-notify", what: "SIGKILL to one of the two senders of webhooks", weight: 2, part: doorsPart,
			least: 100 * time.Millisecond, most: 9 * time.Second, inject: stopDoor(sender, syscall.SIGKILL)},
		{name: "stop-notify", what: "SIGTERM to one of the two senders of webhooks", weight: 1, part: doorsPart,
			least: 100 * time.Millisecond, most: 2 * time.Second, inject: stopDoor(sender, syscall.SIGTERM)},
		{name: "receiver-fails", what: "the receiver of webhooks answers 500 to everything", weight: 1, part: doorsPart,
			least: time.Second, most: 8 * time.Second, inject: spoilReceiver(func(m *manner) { m.fails = 1 })},
		{name: "receiver-slow", what: "the receiver of webhooks takes up to two seconds for each", weight: 1, part: doorsPart,
			least: time.Second, most: 6 * time.Second, inject: spoilReceiver(func(m *manner) { m.slow = 2 * time.Second })},
		{name: "restart-receiver", what: "the receiver of webhooks is gone, connections break", weight: 1, part: doorsPart,
			least: 100 * time.Millisecond, most: 5 * time.Second, inject: restartReceiver},
	}
}

func stopDoor(which func(*rig, *rand.Rand) *process, s syscall.Signal) func(context.Context, *rig, *rand.Rand) (heal, error) {
	return func(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
		p := which(r, draw)
		r.end(p, s)
		return func(context.Context) error { return r.begin(p) }, nil
	}
}

func spoilReceiver(how func(*manner)) func(context.Context, *rig, *rand.Rand) (heal, error) {
	return func(_ context.Context, r *rig, _ *rand.Rand) (heal, error) {
		r.doors.receiver.behave(how)
		return func(context.Context) error { r.doors.receiver.behave(nil); return nil }, nil
	}
}

func restartReceiver(_ context.Context, r *rig, _ *rand.Rand) (heal, error) {
	r.doors.receiver.close()
	return func(context.Context) error { return r.doors.receiver.open() }, nil
}

// post brings orders over HTTP at a steady rate until enough ends, each until the door says
// that it is stored. It returns when all are confirmed or ctx ends.
func (r *rig) post(ctx context.Context, enough <-chan struct{}) error {
	if r.doors == nil {
		return nil
	}
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: posters}}
	defer client.CloseIdleConnections()
	slots := make(chan struct{}, posters)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	rate := max(r.o.rate*postsPart, 1)
	for i := 0; pauseUntil(ctx, enough, time.Duration(float64(time.Second)/rate)); i++ {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := r.bring(ctx, client, i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// bring posts one order until it is stored. Every answer but those that the door documents for
// an order that is right is an error of the run.
func (r *rig) bring(ctx context.Context, client *http.Client, i int) error {
	no := fmt.Sprintf("H%d-%06d", r.o.seed, i)
	in := r.intent(i) // with the lane, the time and the deadline of its like over NATS
	in.OrderNo, in.ID, in.Batch = no, "local:chaos-"+no, producerBatch+"-http"
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"chaos-" + no}, "Order-Batch": {in.Batch}}
	if in.Lane != "" {
		header.Set("Order-Lane", in.Lane)
	}
	if !in.NotBefore.IsZero() {
		header.Set("Order-Not-Before", in.NotBefore.UTC().Format(time.RFC3339Nano))
	}
	if !in.Deadline.IsZero() {
		header.Set("Order-Deadline", in.Deadline.UTC().Format(time.RFC3339Nano))
	}
	body := string(orderBody(no, i))
	r.intents.publish(no, in.ID)
	for {
		status, said, err := postOnce(ctx, client, r.doors.url+"/v1/orders", header, body)
		switch {
		case err != nil || status >= 500: // the door says: send it again
		case status == http.StatusOK || status == http.StatusCreated:
			r.intents.confirm(order.OutcomeNone, no)
			r.doors.receiver.expect(no)
			return nil
		case status == http.StatusUnprocessableEntity && (strings.Contains(said, "deadline") && !in.Deadline.IsZero() || strings.Contains(said, "is over") && !in.NotBefore.IsZero()):
			r.intents.attempt(no) // its time passed while the door or the broker was away; an unconfirmed one may be stored
			return nil
		default:
			return fmt.Errorf("HTTP door: order %s: status %d: %s", no, status, said)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%w: order %s is not confirmed over HTTP", err, no)
		}
	}
}

func postOnce(ctx context.Context, client *http.Client, url string, header http.Header, body string) (status int, said string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// untilTold waits until the senders have told every result that is stored. The queue is quiet.
func (d *doors) untilTold(ctx context.Context, q *queue.Queue) error {
	if d == nil {
		return nil
	}
	var kept notify.Kept
	var aside int
	for {
		state, err := q.Results().State(ctx)
		if err == nil {
			var e queue.Entry
			if e, err = q.Bucket().Get(ctx, "notify.sender"); err == nil {
				err = json.Unmarshal(e.Value, &kept)
			}
		}
		if err == nil {
			var list []*notify.Aside
			if list, err = notify.ReadAside(ctx, q); err == nil {
				if aside = len(list); aside == 0 && kept.Position.Seq >= state.LastSeq {
					return nil
				}
			}
		}
		if waitErr := pause(ctx, 100*time.Millisecond); waitErr != nil {
			return fmt.Errorf("%w: the senders are at %d, %d events are aside, and the receiver waits (%w)", waitErr, kept.Position.Seq, aside, err)
		}
	}
}
