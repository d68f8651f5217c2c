package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/testing/bitrot"
)

// bitRot damages the disk of one of three servers. The broker does not heal all of that
// (docs/jepsen.md). So the fault needs somebody who does what the runbook says, and the fleet
// must notice first that it is needed.
func bitRot() fault {
	return fault{name: "bit-rot", what: "a server stops, a block of its results or of its intents gets a flipped bit or is cut off, and it starts again; if the broker does not heal it, the fleet must notice, and the server begins anew with an empty store",
		needs: []string{clusterBroker}, weight: 2, least: time.Second, most: 5 * time.Second, inject: rot}
}

const (
	// healWithin is how long a server may take to copy from the others what it lost.
	healWithin = time.Minute
	// noticeWithin is how long the fleet may take to notice, beside other faults.
	noticeWithin = 90 * time.Second
	// mendWithin bounds how long a server may take to copy everything from the others.
	mendWithin = 2 * time.Minute
)

// rotTally says what became of damaged blocks.
type rotTally struct {
	// Whole counts those after which the server lacked nothing: it had copied what it lost
	// from the others, or the place held nothing that was still needed.
	Whole int `json:"whole"`
	// Noticed counts those of the results that it did not heal, and that the fleet noticed, the
	// last one after at most Slowest seconds. Lacked is how many messages they held.
	Noticed int     `json:"noticed"`
	Slowest float64 `json:"slowest_notice_seconds"`
	Lacked  uint64  `json:"lacked"`
	// Unnoticed counts those of the results that nobody noticed in time.
	Unnoticed int `json:"unnoticed"`
	// Silent counts those of the intents that it did not heal in time. Nothing compares these
	// while orders flow.
	Silent int `json:"silent"`
}

const resultsStream = "ORDERS_RESULTS"

// damagedStreams are the streams whose files rot.
var damagedStreams = []string{resultsStream, resultsStream, "ORDERS"}

// rot damages a block of one server while it is down. One server at a time is damaged: with
// two, nobody has everything.
func rot(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	if !r.rotten.CompareAndSwap(false, true) {
		return nil, errors.New("another server is damaged still")
	}
	at, stream := draw.IntN(len(r.nodes)), damagedStreams[draw.IntN(len(damagedStreams))]
	node, kind, change := r.nodes[at], "flipped a bit", bitrot.Flip
	if draw.IntN(2) == 0 {
		kind, change = "cut a file off", bitrot.Cut
	}
	where := ""
	err := r.withoutOthers(ctx, node, func() (err error) {
		node.stop(syscall.SIGTERM, drainPatience)
		where, err = bitrot.DamageAny(r.storeDir(node.name), stream, change, draw)
		return errors.Join(err, node.start())
	})
	if err != nil {
		r.rotten.Store(false)
		return nil, err
	}
	r.say("%s of %s: %s in %s", node.name, stream, kind, where)
	since := time.Now()
	return func(ctx context.Context) error {
		defer r.rotten.Store(false)
		return r.mend(ctx, at, stream, since)
	}, nil
}

// withoutOthers calls do while no process is started or ended by anybody else, and every server
// but one runs.
func (r *rig) withoutOthers(ctx context.Context, but *process, do func() error) error {
	for {
		r.stores.Lock()
		all := true
		for _, n := range r.nodes {
			all = all && (n == but || n.pid() != 0)
		}
		if all {
			defer r.stores.Unlock()
			return do()
		}
		r.stores.Unlock()
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// mend waits until the server lacks nothing or the fleet has noticed that it does. Then it does
// what the runbook says: stop the server, empty its store, start it. It does so in any case: a
// damage that shows nothing is there still, and keeps another server from catching up once this
// one leads.
func (r *rig) mend(ctx context.Context, at int, stream string, since time.Time) error {
	node, t := r.nodes[at], &r.rots
	lacks, err := r.lacks(ctx, at, stream, healWithin)
	switch {
	case err == nil && lacks == 0:
		t.Whole++
		r.say("%s lacks nothing of %s, after %.1fs", node.name, stream, time.Since(since).Seconds())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case stream != resultsStream:
		t.Silent++
		r.say("%s lacks %d messages of %s (%v)", node.name, lacks, stream, err)
	default:
		noticed, how := r.noticed(ctx, stream)
		took := time.Since(since).Seconds()
		r.say("%s lacks %d messages of %s (%v): %s, after %.1fs", node.name, lacks, stream, err, how, took)
		t.Lacked += lacks
		if noticed {
			t.Noticed, t.Slowest = t.Noticed+1, max(t.Slowest, took)
		} else {
			t.Unnoticed++
		}
	}
	return r.withoutOthers(ctx, node, func() error {
		node.stop(syscall.SIGTERM, drainPatience)
		if err := errors.Join(os.RemoveAll(r.storeDir(node.name)), node.start()); err != nil {
			return err
		}
		return r.whole(ctx, at)
	})
}

// noticed waits until a worker says that a replica of the stream lacks messages.
func (r *rig) noticed(ctx context.Context, stream string) (bool, string) {
	ctx, cancel := context.WithTimeout(ctx, noticeWithin)
	defer cancel()
	q, err := r.open(ctx, "chaos")
	if err != nil {
		return false, err.Error()
	}
	defer q.Close()
	for {
		present, err := fleet.New(q).Workers(ctx)
		for _, p := range present {
			for _, reason := range p.Reasons {
				if strings.HasPrefix(reason, "a replica of stream "+stream+" lacks") {
					return true, p.Worker + " holds"
				}
			}
		}
		if waitErr := pause(ctx, 200*time.Millisecond); waitErr != nil {
			return false, fmt.Sprintf("nobody noticed (%v)", errors.Join(waitErr, err))
		}
	}
}

// held is what a server has of a stream.
type held struct {
	Messages uint64 `json:"messages"`
	Last     uint64 `json:"last_seq"`
}

// holds asks a server at its monitoring port, as a person does.
func (r *rig) holds(ctx context.Context, at int) (map[string]held, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.monitors[at]+"/jsz?accounts=true&streams=true", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Accounts []struct {
			Streams []struct {
				Name  string `json:"name"`
				State held   `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	all := make(map[string]held)
	for _, a := range answer.Accounts {
		for _, s := range a.Streams {
			all[s.Name] = s.State
		}
	}
	return all, nil
}

// lacks compares a server with the others, in moments in which both have the same ends of the
// stream, until it has as many messages, or has had fewer for five seconds.
func (r *rig) lacks(ctx context.Context, at int, stream string, within time.Duration) (fewer uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s: its %s could not be compared with the others' within %s", r.nodes[at].name, stream, within))
	defer cancel()
	var since time.Time
	for {
		other := (at + 1 + int(time.Now().UnixNano()/1000)%2) % len(r.nodes)
		mine, err1 := r.holds(ctx, at)
		theirs, err2 := r.holds(ctx, other)
		a, b := mine[stream], theirs[stream]
		switch same := err1 == nil && err2 == nil && a.Last > 0 && a.Last == b.Last; {
		case same && a.Messages >= b.Messages:
			return 0, nil
		case same && since.IsZero():
			since = time.Now()
		case same && time.Since(since) > 5*time.Second:
			return b.Messages - a.Messages, nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// whole waits until a server that began anew has every stream as the others have it.
func (r *rig) whole(ctx context.Context, at int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mendWithin, fmt.Errorf("%s did not copy everything from the others within %s", r.nodes[at].name, mendWithin))
	defer cancel()
	theirs, err := r.holds(ctx, (at+1)%len(r.nodes))
	if err != nil {
		return err
	}
	for stream := range theirs {
		if lacks, err := r.lacks(ctx, at, stream, mendWithin); err != nil || lacks > 0 {
			return errors.Join(err, fmt.Errorf("%s began anew and lacks %d messages of %s", r.nodes[at].name, lacks, stream))
		}
	}
	return nil
}
