package fleet

import (
	"fmt"
	"net/url"
	"strings"

	"orderpost/internal/queue"
)

// Identity is the API that a fleet posts to. Its workers must agree on it: a wrong
// setting must not spread orders over two accounts.
type Identity struct {
	URL   string `json:"url"`
	Label string `json:"label,omitempty"`
}

// String names it for people.
func (i Identity) String() string {
	if i.Label == "" {
		return i.URL
	}
	return i.URL + " (" + i.Label + ")"
}

// Normal spells the address in one way.
func (i Identity) Normal() Identity {
	i.URL = strings.TrimRight(i.URL, "/")
	u, err := url.Parse(i.URL)
	if err != nil {
		return i
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	i.URL = u.String()
	return i
}

// Same says whether both are certainly one account: the same label, or the same
// address without a label. An account that has a label keeps it when its address
// changes.
func (i Identity) Same(j Identity) bool {
	i, j = i.Normal(), j.Normal()
	return i.Label == j.Label && (i.Label != "" || i.URL == j.URL)
}

// Contradicts says whether a running worker with identity i must stop sending
// when the fleet's is j. It need not if the only difference is that one of them
// has a label for the address.
func (i Identity) Contradicts(j Identity) bool {
	unnamed := i.Label == "" || j.Label == ""
	return !i.Same(j) && !(unnamed && i.Normal().URL == j.Normal().URL)
}

// IdentityError is returned to a worker whose API is not the fleet's.
type IdentityError struct {
	Have, Want Identity
	// Counts are what is stored of the account that the fleet has.
	Counts queue.Counts
	// Present is a worker that runs with the fleet's identity; "" if none does.
	Present string
}

// Error names both and the ways out.
func (e *IdentityError) Error() string {
	there := fmt.Sprintf("%d pending orders, %d results and %d dead letters", e.Counts.Pending, e.Counts.Results, e.Counts.Letters)
	if nothingStored(e.Counts) {
		there = "the worker " + e.Present + " runs with it"
	}
	return fmt.Sprintf("this worker posts to %s, but the orders of this broker belong to %s (%s); nothing was sent. "+
		"If that is a mistake, correct ORDERPOST_API_URL or ORDERPOST_ACCOUNT_LABEL. "+
		"If this worker is to take these orders over, run: orderpost worker adopt (with this worker's settings). "+
		"To leave them where they are, give this worker another data folder (ORDERPOST_DATA_DIR) or, on a shared NATS, streams of its own (ORDERPOST_PREFIX)",
		e.Want, e.Have, there)
}

func nothingStored(c queue.Counts) bool {
	return c.Pending == 0 && c.Waiting == 0 && c.Results == 0 && c.Letters == 0
}
