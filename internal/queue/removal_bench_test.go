//go:build unix

package queue

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// BenchmarkRemoval compares ways to remove moved intents from the waiting room, see
// docs/decisions.md: a deletion for each, purges of a subject up to a
// sequence, and acknowledgements of a work queue's consumer. It measures CPU only.
// Brokers and client are one process, so "read" and "publish" say what else a move
// costs.
func BenchmarkRemoval(b *testing.B) {
	for _, nodes := range []int{1, clusterSize} {
		for _, way := range []string{"read", "publish", "publish singly", "read+delete", "read+purge", "pull+ack"} {
			b.Run(fmt.Sprintf("nodes=%d/%s", nodes, way), func(b *testing.B) {
				for b.Loop() {
					benchRemoval(b, nodes, way)
				}
			})
		}
	}
}

// removals is a stream of intents of one import, on its way to another one.
type removals struct {
	b      *testing.B
	nc     *nats.Conn
	js     jetstream.JetStream
	room   jetstream.Stream
	puller jetstream.Consumer
}

const (
	roomSubject = "room.bulk.march"
	atOnce      = 100
)

func benchRemoval(b *testing.B, nodes int, way string) {
	const intents = 20_000
	r := newRemovals(b, nodes, way == "pull+ack")
	for n := 0; n < intents; n += 500 {
		r.publish(n, 500, func(int) string { return roomSubject })
	}
	time.Sleep(time.Second) // what the brokers still do for the messages
	began := cpu()
	for n := 0; n < intents; n += atOnce {
		switch way {
		case "publish":
			r.publish(n, atOnce, func(i int) string { return fmt.Sprint("queue.A-", i) })
		case "publish singly":
			r.publishSingly(n, atOnce)
		case "pull+ack":
			r.ack()
		case "read":
			r.read(n)
		case "read+delete":
			r.read(n)
			r.remove(n)
		case "read+purge":
			r.read(n)
			noError(b, r.room.Purge(b.Context(), jetstream.WithPurgeSubject(roomSubject), jetstream.WithPurgeSequence(uint64(n+atOnce+1))))
		}
	}
	for left := way != "read" && !strings.HasPrefix(way, "publish"); left; time.Sleep(100 * time.Millisecond) {
		info, err := r.room.Info(b.Context())
		noError(b, err)
		left = info.State.Msgs > 0
	}
	b.ReportMetric(float64((cpu()-began).Nanoseconds())/1000/intents, "CPU-µs/intent")
}

func newRemovals(b *testing.B, nodes int, workQueue bool) *removals {
	var url string
	var options []nats.Option
	if nodes == 1 {
		s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
		noError(b, err)
		b.Cleanup(s.Stop)
		url, options = s.URL, []nats.Option{nats.Token(s.Token)}
	} else {
		cluster, _ := startCluster(b)
		url = cluster[0].ClientURL()
	}
	nc, err := nats.Connect(url, options...)
	noError(b, err)
	b.Cleanup(nc.Close)
	r := &removals{b: b, nc: nc}
	r.js, err = jetstream.New(nc)
	noError(b, err)
	cfg := jetstream.StreamConfig{Name: "ROOM", Subjects: []string{"room.>"}, Replicas: nodes, AllowDirect: true, AllowAtomicPublish: true}
	if workQueue {
		cfg.Retention = jetstream.WorkQueuePolicy
	}
	r.room, err = r.js.CreateStream(b.Context(), cfg)
	noError(b, err)
	if workQueue {
		r.puller, err = r.room.CreateConsumer(b.Context(), jetstream.ConsumerConfig{Durable: "feeder", FilterSubject: roomSubject, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1})
		noError(b, err)
	}
	_, err = r.js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "QUEUE", Subjects: []string{"queue.>"}, Replicas: nodes, AllowAtomicPublish: true,
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true})
	noError(b, err)
	return r
}

func (r *removals) publish(from, n int, subject func(int) string) {
	batch := make([]*nats.Msg, n)
	for i := range batch {
		batch[i] = &nats.Msg{Subject: subject(from + i), Header: nats.Header{nats.MsgIdHdr: {fmt.Sprint("A-", from+i)}}, Data: make([]byte, 300)}
	}
	_, err := jetstreamext.PublishMsgBatch(r.b.Context(), r.js, batch)
	noError(r.b, err)
}

// publishSingly publishes without waiting in between.
func (r *removals) publishSingly(from, n int) {
	for i := range n {
		m := &nats.Msg{Subject: fmt.Sprint("queue.A-", from+i), Header: nats.Header{nats.MsgIdHdr: {fmt.Sprint("A-", from+i)}}, Data: make([]byte, 300)}
		_, err := r.js.PublishMsgAsync(m)
		noError(r.b, err)
	}
	<-r.js.PublishAsyncComplete()
}

// read reads the intents after a sequence, as the feeder does.
func (r *removals) read(after int) {
	inbox := r.nc.NewRespInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	noError(r.b, err)
	noError(r.b, r.nc.PublishRequest("$JS.API.DIRECT.GET.ROOM", inbox, fmt.Appendf(nil, `{"seq":%d,"batch":%d,"next_by_subj":%q}`, after+1, atOnce, roomSubject)))
	for range atOnce + 1 { // and the end marker
		_, err := sub.NextMsg(5 * time.Second)
		noError(r.b, err)
	}
	noError(r.b, sub.Unsubscribe())
}

// remove deletes the intents after a sequence, each by its own request.
func (r *removals) remove(after int) {
	var all sync.WaitGroup
	turns := make(chan struct{}, settle.LeaderReads)
	for i := range atOnce {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if _, err := r.nc.Request("$JS.API.STREAM.MSG.DELETE.ROOM", fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, after+i+1), 5*time.Second); err != nil {
				r.b.Error(err)
			}
		})
	}
	all.Wait()
}

// ack pulls intents and acknowledges them.
func (r *removals) ack() {
	batch, err := r.puller.Fetch(atOnce)
	noError(r.b, err)
	for m := range batch.Messages() {
		noError(r.b, m.Ack())
	}
	noError(r.b, batch.Error())
}

// cpu returns the CPU time of the process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
