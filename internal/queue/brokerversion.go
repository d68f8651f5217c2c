package queue

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/semver"
)

// LeastBroker is the oldest nats-server that programs work with. Earlier ones miss stored
// messages after a plain restart, or were never tried (docs/operations.md).
const LeastBroker = "2.12.11"

// A BrokerDefect is a fault of some versions of nats-server. It breaks a promise only
// together with another fault, so programs warn of it and go on.
type BrokerDefect struct {
	// Issue is the pull request of nats-io/nats-server that mends it.
	Issue string
	// Fixed lists the first version without it of each minor release that was mended, the
	// oldest first. Minor releases between them, and before the first, keep it.
	Fixed []string
	// Clustered says that one server alone does not have it.
	Clustered bool
	// What says what may happen, for people.
	What string
}

// BrokerDefects lists what programs warn of. Each was looked up in the pull request, and in
// the source of the versions before and after it.
var BrokerDefects = []BrokerDefect{
	{Issue: "#8265", Fixed: []string{"2.12.12", "2.14.3"}, Clustered: true,
		What: "a server whose storage is full skips messages and may lead afterwards, without them"},
	{Issue: "#8471", Fixed: []string{"2.14.6", "2.15.0"},
		What: "a stream that is edited after the server was restarted has another creation time after the next restart, so workers take it for another one and hold the fleet"},
	{Issue: "#8475", Fixed: []string{"2.14.6", "2.15.0"},
		What: "a power cut may lose what was acknowledged, because a rewritten file is not synced"},
	{Issue: "#8629", Fixed: []string{"2.14.8", "2.15.1"},
		What: "a power cut may lose intents or results, because a purge rewrites a file and does not sync it"},
}

// has reports whether a version, as semver writes it, has the defect.
func (d BrokerDefect) has(version string) bool {
	for _, fixed := range slices.Backward(d.Fixed) {
		fixed = "v" + fixed
		if semver.MajorMinor(version) == semver.MajorMinor(fixed) {
			return semver.Compare(version, fixed) < 0
		}
		if semver.Compare(version, fixed) > 0 {
			return false
		}
	}
	return true
}

// BrokerVerdict says whether programs work with a version of nats-server.
type BrokerVerdict struct {
	// Version is what the server says, for instance 2.15.2.
	Version string `json:"version"`
	// Refused says why programs do not work with it; "" = they do.
	Refused string `json:"refused,omitempty"`
	// Warnings name the defects that weaken a promise, or say that the version cannot be
	// read.
	Warnings []string `json:"warnings,omitempty"`
}

// Word sums the verdict up: ok, weak or refused.
func (v BrokerVerdict) Word() string {
	switch {
	case v.Refused != "":
		return "refused"
	case len(v.Warnings) > 0:
		return "weak"
	}
	return "ok"
}

// JudgeBroker judges a server by its version. A pre-release counts as older than its
// release.
func JudgeBroker(version string, clustered bool) BrokerVerdict {
	v, said := BrokerVerdict{Version: version}, "v"+version
	switch {
	case !semver.IsValid(said):
		v.Warnings = []string{fmt.Sprintf("its version %q is none that can be compared: it must be nats-server %s or newer", version, LeastBroker)}
		return v
	case semver.Compare(said, "v"+LeastBroker) < 0:
		v.Refused = fmt.Sprintf("nats-server %s is older than %s: after a restart it may not find a result or an order that it stored "+
			"(nats-server #8254, #8285), and an accepted order could be posted again. Upgrade it; see \"Which nats-server?\" in docs/operations.md", version, LeastBroker)
		return v
	}
	for _, d := range BrokerDefects {
		if d.has(said) && (clustered || !d.Clustered) {
			v.Warnings = append(v.Warnings, fmt.Sprintf("%s (nats-server %s, mended in %s)", d.What, d.Issue, strings.Join(d.Fixed, " and ")))
		}
	}
	return v
}

// BrokerVerdict judges the server that the queue is connected to. Without a connection it
// returns the zero verdict.
func (cn *Conn) BrokerVerdict() BrokerVerdict {
	version := cn.nc.ConnectedServerVersion()
	if version == "" {
		return BrokerVerdict{}
	}
	return JudgeBroker(version, cn.nc.ConnectedClusterName() != "")
}

// Refused says why this program does not work with the server that it is connected to;
// "" = it does, or is not connected. Open fails with a server that is refused. A reconnect
// may lead a running worker to one: it then takes no new intents, and goes on to store what
// it knows of those that it has posted, because a record there is better than none.
func (cn *Conn) Refused() string {
	if why := cn.BrokerVerdict().Refused; why != "" {
		return "the broker at " + RedactURL(cn.nc.ConnectedUrl()) + ": " + why
	}
	return ""
}

// Unusable says why the broker cannot be used at this moment; "" = it can.
func (cn *Conn) Unusable() string {
	if !cn.Connected() {
		return "not connected to the broker"
	}
	if why := cn.Refused(); why != "" {
		return why
	}
	return cn.denials.why(&cn.denials.last)
}

// judgeBroker logs what is wrong with the version of the connected server, after each
// connect.
func (cn *Conn) judgeBroker() {
	switch v := cn.BrokerVerdict(); {
	case v.Refused != "":
		cn.log.Error().Str("server", cn.nc.ConnectedServerName()).Msg(cn.Refused() + ". Nothing new is taken until a newer server answers")
	case len(v.Warnings) > 0 && cn.cfg.Worker:
		cn.log.Warn().Str("server", cn.nc.ConnectedServerName()).Str("version", v.Version).Strs("defects", v.Warnings).
			Msg("the broker's version weakens what orderpost promises; see \"Which nats-server?\" in docs/operations.md")
	}
}

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
