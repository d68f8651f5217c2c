package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

// networkFaults disturb one worker's connection to the broker, or all workers'
// connections to the API.
func networkFaults() []fault {
	var all []fault
	add := func(name, what string, most time.Duration, begin func(p *proxy, draw *rand.Rand)) {
		for _, way := range []struct{ name, text string }{{"broker", "one worker and its broker"}, {"api", "the workers and the API"}} {
			all = append(all, fault{name: name + "-" + way.name, what: what + " between " + way.text, weight: 1,
				least: 200 * time.Millisecond, most: most, inject: onWay(way.name == "api", begin)})
		}
	}
	add("cut", "connections are reset, and refused meanwhile,", 4*time.Second, func(p *proxy, _ *rand.Rand) {
		p.set(trouble{Refuse: true})
		p.cut()
	})
	add("black-hole", "nothing arrives, late or never,", 8*time.Second, func(p *proxy, _ *rand.Rand) {
		p.set(trouble{HoldUp: true, HoldDown: true})
	})
	add("half-open", "one direction is dead", 8*time.Second, func(p *proxy, draw *rand.Rand) {
		up := draw.IntN(2) == 0
		p.set(trouble{HoldUp: up, HoldDown: !up})
	})
	add("slow", "20 to 200 ms each way", 5*time.Second, func(p *proxy, draw *rand.Rand) {
		p.set(trouble{Delay: 20*time.Millisecond + time.Duration(draw.Int64N(int64(180*time.Millisecond)))})
	})
	return append(all, fault{name: "cut-short-api", what: "new connections between the workers and the API are reset after 1 to 2,000 bytes of the server's: in the handshake, with --tls, or in the first answer",
		weight: 1, least: 200 * time.Millisecond, most: 4 * time.Second, inject: onWay(true, func(p *proxy, draw *rand.Rand) {
			p.set(trouble{Short: 1 + draw.IntN(2000)})
			p.cut()
		})})
}

func onWay(api bool, begin func(*proxy, *rand.Rand)) func(context.Context, *rig, *rand.Rand) (heal, error) {
	return func(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
		ways := []*proxy{r.apiProxy}
		if !api {
			// The worker that runs the embedded broker has no proxy to it.
			ways = nil
			for _, w := range shuffledMembers(r.workers, draw) {
				if len(w.ways) > 0 {
					ways = w.ways
					break
				}
			}
		}
		if len(ways) == 0 {
			return nil, errNoWay
		}
		for _, p := range ways {
			begin(p, draw)
		}
		return func(context.Context) error {
			for _, p := range ways {
				p.set(trouble{})
			}
			return nil
		}, nil
	}
}

func shuffledMembers(all []*member, draw *rand.Rand) []*member {
	all = append([]*member(nil), all...)
	draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
