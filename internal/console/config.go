package console

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"orderpost/internal/platform/endpoint"
	"orderpost/internal/queue"
)

// Config holds the settings of the console.
type Config struct {
	Listen  string   `env:"CONSOLE_LISTEN" envDefault:"127.0.0.1:9465" desc:"address of the console's pages; beyond loopback it needs users or a proxy that names them, and TLS or a proxy"`
	Hosts   []string `env:"CONSOLE_HOSTS" desc:"names under which people reach the console, comma-separated; requests for others are refused, but for loopback and the listening address"`
	Users   string   `env:"CONSOLE_USERS" desc:"file of users, one name:role:bcrypt-hash a line, read again when it changes"`
	TLSCert string   `env:"CONSOLE_TLS_CERT_FILE" desc:"PEM file of the console's certificate, read again with its key when it changes"`
	TLSKey  string   `env:"CONSOLE_TLS_KEY_FILE" desc:"PEM file of the certificate's key"`

	Proxies    []string `env:"CONSOLE_PROXIES" desc:"addresses or networks of authenticating proxies, comma-separated; headers from others are not believed"`
	UserHeader string   `env:"CONSOLE_USER_HEADER" desc:"header in which the proxy names the person, such as X-Forwarded-User; needs ORDERPOST_CONSOLE_PROXIES"`
	ProxyRole  string   `env:"CONSOLE_PROXY_ROLE" envDefault:"viewer" desc:"role of a person whom the proxy names and who is neither in the file of users nor in a group with a role; none = refused"`

	GroupsHeader string   `env:"CONSOLE_GROUPS_HEADER" desc:"header in which the proxy names the person's groups, with commas between them, such as X-Forwarded-Groups; needs ORDERPOST_CONSOLE_USER_HEADER"`
	GroupRoles   []string `env:"CONSOLE_GROUP_ROLES" desc:"GROUP=ROLE, comma-separated: the roles of those groups; whoever is in several has all their rights"`

	ViewerNKeyFile    string `env:"CONSOLE_VIEWER_NKEY_FILE" desc:"file with the seed of a NATS user that cannot write (role viewer), which reads the pages of people who may only look"`
	ViewerCreds       string `env:"CONSOLE_VIEWER_CREDS" desc:"NATS credentials file of that user, instead of a seed"`
	ViewerInboxPrefix string `env:"CONSOLE_VIEWER_INBOX_PREFIX" desc:"ORDERPOST_NATS_INBOX_PREFIX of that user"`

	// KeepAlive must be longer than that of a load balancer before the console.
	KeepAlive time.Duration `env:"CONSOLE_KEEPALIVE_TIMEOUT" envDefault:"11m" desc:"how long an idle connection stays open; longer than the load balancer before the console keeps its own"`

	IdleTime time.Duration `env:"CONSOLE_IDLE_TIME" envDefault:"1h" desc:"how long a login lasts without a request"`

	UploadTotal int64 `env:"CONSOLE_UPLOAD_TOTAL" envDefault:"8192" desc:"MiB that all uploaded files may take in the data folder"`
}

const (
	// sessionTime is how long a login lasts.
	sessionTime = 12 * time.Hour
	// maxUpload is the size in bytes of the largest file that people may upload, as it
	// comes and unpacked.
	maxUpload = 1 << 30
	// uploadRetention is how long an uploaded file is kept that nobody uses. One whose
	// final results were fetched goes after an hour.
	uploadRetention = 7 * 24 * time.Hour
)

// Validate returns every invalid setting at once, by the name of its variable.
func (c Config) Validate() error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("ORDERPOST_CONSOLE_%s: "+format, append([]any{name}, args...)...))
	}
	if err := endpoint.Listen(c.Listen); err != nil {
		bad("LISTEN", "%w, such as 127.0.0.1:9465", err)
	}
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/ @") {
			bad("HOSTS", "%q is not a name such as console.example.com", host)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("TLS_CERT_FILE", "a certificate needs its key (ORDERPOST_CONSOLE_TLS_KEY_FILE), and a key its certificate")
	}
	if _, err := c.proxies(); err != nil {
		bad("PROXIES", "%v", err)
	}
	if c.UserHeader != "" && len(c.Proxies) == 0 {
		bad("USER_HEADER", "anybody can send the header %q; name the proxies whose header counts (ORDERPOST_CONSOLE_PROXIES)", c.UserHeader)
	}
	if c.GroupsHeader != "" && c.UserHeader == "" {
		bad("GROUPS_HEADER", "groups are those of a person whom the proxy names; set ORDERPOST_CONSOLE_USER_HEADER, too")
	}
	if (c.GroupsHeader == "") != (len(c.GroupRoles) == 0) {
		bad("GROUP_ROLES", "the header of groups (ORDERPOST_CONSOLE_GROUPS_HEADER) and what they may do belong together; give both")
	}
	if _, err := c.groups(); err != nil {
		bad("GROUP_ROLES", "%v", err)
	}
	if c.ProxyRole != "none" {
		if _, err := readRole(c.ProxyRole); err != nil {
			bad("PROXY_ROLE", "%v, or none", err)
		}
	}
	if c.ViewerNKeyFile != "" && c.ViewerCreds != "" {
		bad("VIEWER_CREDS", "give a seed (ORDERPOST_CONSOLE_VIEWER_NKEY_FILE) or credentials, not both")
	}
	if c.ViewerInboxPrefix != "" && c.ViewerNKeyFile == "" && c.ViewerCreds == "" {
		bad("VIEWER_INBOX_PREFIX", "belongs to a NATS user of its own, which ORDERPOST_CONSOLE_VIEWER_NKEY_FILE or ORDERPOST_CONSOLE_VIEWER_CREDS names")
	}
	if c.KeepAlive < time.Second {
		bad("KEEPALIVE_TIMEOUT", "%s; give at least a second, such as 11m", c.KeepAlive)
	}
	if c.IdleTime <= 0 {
		bad("IDLE_TIME", "must be above 0")
	}
	if c.UploadTotal < 1 {
		bad("UPLOAD_TOTAL", "%d is not a number of MiB", c.UploadTotal)
	}
	if len(errs) == 0 && !endpoint.Local(c.Listen) {
		if !c.knowsPeople() {
			bad("LISTEN", "%s can be reached from other machines, and the console does not know who may log in: set ORDERPOST_CONSOLE_USERS, or ORDERPOST_CONSOLE_USER_HEADER with ORDERPOST_CONSOLE_PROXIES, or listen on 127.0.0.1", c.Listen)
		}
		if c.TLSCert == "" && len(c.Proxies) == 0 {
			bad("LISTEN", "%s can be reached from other machines, and passwords would cross the network in plain text: set ORDERPOST_CONSOLE_TLS_CERT_FILE and ORDERPOST_CONSOLE_TLS_KEY_FILE, or name the proxy that ends TLS (ORDERPOST_CONSOLE_PROXIES), or listen on 127.0.0.1", c.Listen)
		}
	}
	return errors.Join(errs...)
}

// ForViewers returns the settings of the connection by which the console serves
// people who may only look. own is false if they have none of their own.
func (c Config) ForViewers(q queue.Config) (cfg queue.Config, own bool) {
	if c.ViewerNKeyFile == "" && c.ViewerCreds == "" {
		return q, false
	}
	q.NKeyFile, q.Creds, q.InboxPrefix = c.ViewerNKeyFile, c.ViewerCreds, c.ViewerInboxPrefix
	return q, true
}

// knowsPeople reports whether people log in with names. Otherwise a one-time link
// lets in whoever started the console.
func (c Config) knowsPeople() bool { return c.Users != "" || c.UserHeader != "" }

// proxies reads the addresses of the proxies.
func (c Config) proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.Proxies {
		text = strings.TrimSpace(text)
		p, err := netip.ParsePrefix(text)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(text); err == nil {
				p = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/24", text)
		}
		out = append(out, p)
	}
	return out, nil
}

// groups reads the rights of the groups.
func (c Config) groups() (map[string]Rights, error) {
	out := make(map[string]Rights, len(c.GroupRoles))
	for _, text := range c.GroupRoles {
		at := strings.LastIndex(text, "=") // a group's name may have one
		if at < 1 {
			return nil, fmt.Errorf("%q is not GROUP=ROLE, as in ops=operator", text)
		}
		group := strings.TrimSpace(text[:at])
		rights, err := readRole(strings.TrimSpace(text[at+1:]))
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", group, err)
		}
		if _, twice := out[group]; twice || group == "" {
			return nil, fmt.Errorf("group %q is there already, or has no name", group)
		}
		out[group] = rights
	}
	return out, nil
}
