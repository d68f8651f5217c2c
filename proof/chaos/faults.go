package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is one kind of trouble.
type fault struct {
	name, what string
	// needs lists the brokers with which the fault makes sense; empty = all.
	needs []string
	// weight is its frequency relative to the other faults.
	weight int
	// least and most are the shortest and the longest time that it stands.
	least, most time.Duration
	// inject starts it and returns what ends it, or nil if it ends by itself. An error
	// says that it had no effect, for example because no broker was in reach.
	inject func(ctx context.Context, r *rig, draw *rand.Rand) (heal, error)
	// hostile says that it needs --hostile or its name in --faults.
	hostile bool
	// part is the part of a run that it is about, which the run may not have; "" = every run.
	part string
}

// heal ends a fault. It retries until it succeeds or ctx ends.
type heal func(ctx context.Context) error

// The parts of a run that a fault may be about, by their flags.
const (
	doorsPart     = "doors"
	approvalsPart = "approvals"
	clocksPart    = "clocks"
	turnsPart     = "nats-server" // of several
)

// The brokers of a run.
const (
	embeddedBroker = "embedded"
	externalBroker = "external"
	clusterBroker  = "cluster"
)

var apart = []string{externalBroker, clusterBroker}

// faults lists all faults.
func faults() []fault {
	all := append(processFaults(), networkFaults()...)
	all = append(all, apiFaults()...)
	all = append(all, personFaults()...)
	all = append(all, hostileFaults()...)
	all = append(all, doorFaults()...)
	all = append(all, peopleFaults()...)
	all = append(all, clockFaults()...)
	return append(all,
		fault{name: "hostile-producer", what: "intents that can never be sent: huge, garbage, 10,000 headers, wrong subjects, two names, numbers that do not fit",
			weight: 2, most: time.Second, inject: hostileProducer},
		fault{name: "stream-full", what: "one of the three streams takes no more (max_bytes at what it holds)",
			weight: 1, least: time.Second, most: 6 * time.Second, inject: streamFull},
	)
}

// chosen returns the faults that --faults names and that the broker and the parts of the run
// allow. It includes hostile ones only if they are named or wanted.
func chosen(names []string, broker string, hostile bool, parts ...string) ([]fault, error) {
	all := faults()
	var out []fault
	for _, name := range names {
		if !slices.ContainsFunc(all, func(f fault) bool { return f.name == name }) {
			return nil, fmt.Errorf("--faults: there is no %q (see --list-faults)", name)
		}
	}
	for _, f := range all {
		possible := len(f.needs) == 0 || slices.Contains(f.needs, broker)
		named := slices.Contains(names, f.name)
		switch {
		case f.part != "" && !slices.Contains(parts, f.part):
			if named {
				return nil, fmt.Errorf("--faults: %s needs --%s", f.name, f.part)
			}
		case possible && (len(names) == 0 && (!f.hostile || hostile) || named):
			out = append(out, f)
		case named:
			return nil, fmt.Errorf("--faults: %s needs --broker %s", f.name, strings.Join(f.needs, " or "))
		}
	}
	return out, nil
}
