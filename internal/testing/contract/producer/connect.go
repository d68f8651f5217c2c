package producer

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Connect reads the environment variables of the nats CLI: NATS_URL, NATS_TOKEN,
// NATS_NKEY (file with the seed), NATS_CA, NATS_CERT and NATS_KEY (PEM files);
// and NATS_INBOX_PREFIX, where the user may subscribe to no other inbox.
func Connect(getenv func(string) string) (*nats.Conn, error) {
	url := getenv("NATS_URL")
	if url == "" {
		url = nats.DefaultURL
	}
	// nats.go gives a server two seconds, which a loaded one or a long way may take.
	opts := []nats.Option{nats.Token(getenv("NATS_TOKEN")), nats.Timeout(20 * time.Second)}
	if seed := getenv("NATS_NKEY"); seed != "" {
		opt, err := nats.NkeyOptionFromSeed(seed)
		if err != nil {
			return nil, err
		}
		opts = append(opts, opt)
	}
	if ca := getenv("NATS_CA"); ca != "" {
		opts = append(opts, nats.RootCAs(ca))
	}
	if cert := getenv("NATS_CERT"); cert != "" {
		opts = append(opts, nats.ClientCert(cert, getenv("NATS_KEY")))
	}
	if prefix := getenv("NATS_INBOX_PREFIX"); prefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(prefix))
	}
	return nats.Connect(url, opts...)
}
