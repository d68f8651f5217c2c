package simulation

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
	"orderpost/internal/testing/storecontract"
)

// TestTheModelKeepsTheContract: so does JetStream (internal/queue). Where the two differ,
// the simulation proves nothing.
func TestTheModelKeepsTheContract(t *testing.T) {
	storecontract.Test(t, storecontract.Promises(), func(t *testing.T, body func(*storecontract.Broker)) { onModel(t, None, 1, body) })
}

func TestTheModelsReplicasKeepTheContract(t *testing.T) {
	for _, promises := range [][]storecontract.Promise{storecontract.Promises(), storecontract.Replicas()} {
		storecontract.Test(t, promises, func(t *testing.T, body func(*storecontract.Broker)) { onModel(t, None, 3, body) })
	}
}

// TestTheContractNoticesMutationsOfTheModel: those that change the broker, not the protocol.
func TestTheContractNoticesMutationsOfTheModel(t *testing.T) {
	notices := map[string]Mutation{"a record is written only on the expected one": R1, "a mark is written only on the expected one": Marks}
	for _, p := range storecontract.Promises() {
		if m, drops := notices[p.Name]; drops {
			delete(notices, p.Name)
			onModel(t, None, 1, func(b *storecontract.Broker) { require.False(t, p.Broken(b)) })
			onModel(t, m, 1, func(b *storecontract.Broker) { require.True(t, p.Broken(b)) })
		}
	}
	require.Empty(t, notices, "no promise is called so")
}

// onModel calls body as a process of a world without trouble.
func onModel(t *testing.T, m Mutation, replicas int, body func(*storecontract.Broker)) {
	t.Helper()
	var cs coroutines
	defer cs.end()
	w := &world{e: newEngine(&Schedule{Seed: 1}, nil), mutation: m}
	w.e.coroutines = &cs
	w.cfg = plan{Replicas: replicas, AckWait: 2 * time.Second, MaxAckPending: 1000, LatencyMin: time.Millisecond, LatencyMax: 5 * time.Millisecond}
	w.broker, w.api = newBroker(w), newAPI(w)
	if replicas > 1 {
		w.broker.followers = &followers{}
	}
	w.witness = newWitness(w, nil)
	w.protocol = settle.Config{IntentSubjects: subjectPrefix, Log: zerolog.Nop()}
	h := w.newHost("process", streamOf(ofPerson, 0, 1, 0))
	h.open()
	over := false
	w.e.spawn(h, func(*proc) {
		body(h.contract(t))
		over = true
	})
	for !over && w.e.step() {
	}
	require.True(t, over, "nothing happens any more")
}

// contract returns what a process can do with the modelled broker.
func (h *host) contract(t *testing.T) *storecontract.Broker {
	b, s := h.w.broker, store{h.w, h}
	stallAll := func(until time.Duration) {
		for i := range b.followers.all {
			b.followers.all[i].stalled = until
		}
	}
	return &storecontract.Broker{
		Store:   s,
		Subject: func(no string) string { return subjectPrefix + no },
		Wait: func(no, id string) uint64 {
			require.NoError(t, s.wait(&settle.Message{Subject: subjectPrefix + no, Header: settle.Header{settle.HeaderIntentID: {id}}}))
			return b.waiting.seq
		},
		Pull:    h.pullRaw,
		AckWait: h.w.cfg.AckWait,
		Now:     h.now,
		Soon: func(holds func() bool) bool {
			for range 10_000 {
				if holds() {
					return true
				}
				h.e.nap(time.Millisecond)
			}
			return false
		},
		Fill: b.fill, MakeRoom: b.makeRoom,
		Restart: func() { b.kill(time.Second, remembersAll) },
		Cut:     func() { h.disconnect(time.Hour) },
		Lag:     func() { stallAll(h.e.at + time.Hour) }, CatchUp: func() { stallAll(h.e.at) },
	}
}

// pullRaw requests messages as worker.pull does, and returns them.
func (h *host) pullRaw(n int, wait time.Duration) (got []settle.Arrival) {
	e, me, end, over := h.e, h.e.running, h.e.at+wait+100*time.Millisecond, false
	wake := func() {
		if !over {
			e.wake(me, me.wait)
		}
	}
	ask := &pull{h: h, n: n, link: h.link, until: e.at + wait, take: func(ms []settle.Arrival) {
		got = append(got, ms...)
		wake()
	}}
	h.send(func() { h.w.broker.ask(ask) })
	e.after(end-e.at, wake)
	for len(got) < n && e.at < end {
		me.wait = e.newWait()
		me.suspend()
	}
	over, ask.over = true, true
	return got
}
