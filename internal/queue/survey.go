package queue

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// BrokerServer is a server that Survey asked for its version.
type BrokerServer struct {
	// Address is where it was asked, without secrets.
	Address string `json:"address"`
	Name    string `json:"name,omitempty"`
	BrokerVerdict
	// Problem says why it could not be asked; "" = it was.
	Problem string `json:"problem,omitempty"`
}

// Survey connects to each server that cfg names or that one of these names as its
// neighbour, one after the other, and judges its version. A connection shows one server
// only, and the others are those that the streams may lead to. Servers that do not
// advertise themselves must be named in cfg.URL.
func Survey(ctx context.Context, cfg Config) ([]BrokerServer, error) {
	access, err := cfg.access()
	if err != nil {
		return nil, err
	}
	var seen []BrokerServer
	known := map[string]bool{} // by server id and version: a server may have several addresses
	ask := strings.Split(cfg.URL, ",")
	for i := 0; i < len(ask) && ctx.Err() == nil; i++ {
		at := strings.TrimSpace(ask[i])
		opts := slices.Concat(access, []nats.Option{nats.Name("orderpost " + cfg.Name), nats.Timeout(dialTimeout), nats.NoReconnect()})
		nc, err := nats.Connect(at, opts...)
		if err != nil {
			seen = append(seen, BrokerServer{Address: RedactURL(at), Problem: err.Error()})
			continue
		}
		clustered := nc.ConnectedClusterName() != ""
		if id := nc.ConnectedServerId() + " " + nc.ConnectedServerVersion(); !known[id] {
			known[id] = true
			s := BrokerServer{Address: RedactURL(at), BrokerVerdict: JudgeBroker(nc.ConnectedServerVersion(), clustered)}
			if name := nc.ConnectedServerName(); name != nc.ConnectedServerId() { // without a name, it is called by its id
				s.Name = name
			}
			seen = append(seen, s)
		}
		for _, neighbour := range nc.DiscoveredServers() {
			if neighbour = asFor(at, neighbour); !slices.Contains(ask, neighbour) {
				ask = append(ask, neighbour)
			}
		}
		nc.Close()
	}
	return seen, ctx.Err()
}

// asFor returns a neighbour's URL with the user of the one that named it, as the client
// does.
func asFor(at, neighbour string) string {
	from, err := url.Parse(at)
	to, toErr := url.Parse(neighbour)
	if err != nil || toErr != nil || from.User == nil || to.User != nil {
		return neighbour
	}
	to.User = from.User
	return to.String()
}
