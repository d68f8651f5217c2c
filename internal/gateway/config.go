package gateway

import (
	"errors"
	"fmt"
	"time"

	"orderpost/internal/platform/endpoint"
)

// DefaultListen is where the command orderpost gateway listens unless it is told.
const DefaultListen = "127.0.0.1:8080"

// Config holds the settings of the HTTP door.
type Config struct {
	Listen      string `env:"GATEWAY_LISTEN" desc:"address of the HTTP door; empty = none in a worker, 127.0.0.1:8080 for orderpost gateway; beyond loopback it needs a file of clients, and TLS or a proxy"`
	Clients     string `env:"GATEWAY_CLIENTS" desc:"YAML or JSON file of clients, read again when it changes; empty = every program of this machine may do everything"`
	TLSCert     string `env:"GATEWAY_TLS_CERT_FILE" desc:"PEM file of the HTTP door's certificate, read again with its key when it changes"`
	TLSKey      string `env:"GATEWAY_TLS_KEY_FILE" desc:"PEM file of the certificate's key"`
	TLSClientCA string `env:"GATEWAY_TLS_CLIENT_CA_FILE" desc:"PEM file of the authorities of clients' certificates, which then stand for a token; read again when it changes"`
	ImportTotal int64  `env:"GATEWAY_IMPORT_TOTAL" envDefault:"8192" desc:"MiB that all files of imports over HTTP may take in the data folder; 0 = the door takes no files"`
	// KeepAlive must be longer than that of a load balancer before the door: one that uses a
	// connection while it is closed answers 502. Google's keep theirs 600 seconds.
	KeepAlive   time.Duration `env:"GATEWAY_KEEPALIVE_TIMEOUT" envDefault:"11m" desc:"how long an idle connection stays open; longer than the load balancer before the door keeps its own"`
	BehindProxy bool          `env:"GATEWAY_BEHIND_PROXY" envDefault:"false" desc:"a proxy ends TLS, so the door may listen beyond loopback without a certificate"`
}

// Enabled reports whether there is a door to open.
func (c Config) Enabled() bool { return c.Listen != "" }

// Validate returns every invalid setting at once, by the name of its variable. Settings
// of a door that is not opened are not looked at.
func (c Config) Validate() error {
	if !c.Enabled() {
		return nil
	}
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("ORDERPOST_GATEWAY_"+name+": "+format, args...))
	}
	if err := endpoint.Listen(c.Listen); err != nil {
		bad("LISTEN", "%w, such as %s", err, DefaultListen)
		return errors.Join(errs...)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("TLS_CERT_FILE", "a certificate needs its key (ORDERPOST_GATEWAY_TLS_KEY_FILE), and a key its certificate")
	}
	if c.TLSClientCA != "" && (c.TLSCert == "" || c.Clients == "") {
		bad("TLS_CLIENT_CA_FILE", "certificates of clients need a certificate of the door (ORDERPOST_GATEWAY_TLS_CERT_FILE) and a file that says who they are (ORDERPOST_GATEWAY_CLIENTS)")
	}
	if c.Clients == "" && c.BehindProxy {
		bad("BEHIND_PROXY", "whoever reaches the proxy could do everything: name the clients (ORDERPOST_GATEWAY_CLIENTS)")
	}
	if !endpoint.Local(c.Listen) && c.Clients == "" {
		bad("LISTEN", "%s can be reached from other machines, and the door does not know who may do what: set ORDERPOST_GATEWAY_CLIENTS, or listen on 127.0.0.1", c.Listen)
	}
	if !endpoint.Local(c.Listen) && c.TLSCert == "" && !c.BehindProxy {
		bad("LISTEN", "%s can be reached from other machines, and tokens would cross the network in plain text: set ORDERPOST_GATEWAY_TLS_CERT_FILE and ORDERPOST_GATEWAY_TLS_KEY_FILE, or ORDERPOST_GATEWAY_BEHIND_PROXY=true if a proxy ends TLS, or listen on 127.0.0.1", c.Listen)
	}
	if c.KeepAlive < time.Second {
		bad("KEEPALIVE_TIMEOUT", "%s; give at least a second, such as 11m", c.KeepAlive)
	}
	if c.ImportTotal < 0 {
		bad("IMPORT_TOTAL", "%d is not a number of MiB", c.ImportTotal)
	}
	return errors.Join(errs...)
}
