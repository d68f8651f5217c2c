package queue

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"orderpost/internal/endpoint"
)

// checkURLs returns an error for a setting that is not a list of NATS URLs,
// before a broker is dialled. In a password, an unescaped / ? # or comma ends
// the address. The beginning of the password would then be dialled and printed
// as host and port. The error never quotes the URL itself.
func checkURLs(list string) error {
	if list == "" {
		return nil
	}
	for _, server := range strings.Split(list, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		websocket := err == nil && strings.HasPrefix(u.Scheme, "ws") && !strings.Contains(u.Path, "@")
		if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Trim(u.Path, "/") != "" && !websocket {
			return fmt.Errorf("ORDERPOST_NATS_URL: %s is not a list of NATS URLs (nats://host:4222,…); write / ? # @ , and %% in a user name or password as %%2F %%3F %%23 %%40 %%2C %%25, "+
				"and a token in front of the host (nats://TOKEN@host:4222)", RedactURL(list))
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return fmt.Errorf("ORDERPOST_NATS_URL: %s: the scheme is nats, tls, ws or wss", RedactURL(list))
		}
		if err := endpoint.Port(u); err != nil {
			return fmt.Errorf("ORDERPOST_NATS_URL: %s: %w", RedactURL(list), err)
		}
	}
	return nil
}

var (
	schemes = regexp.MustCompile(`(^|,)\s*[a-z]{2,5}://`)
	address = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?$`)
)

// RedactURL removes user names, passwords and tokens from a comma-separated
// list of NATS URLs, for messages. It keeps only what is certainly an address.
// After a scheme it hides everything up to the last @, because a password may
// hold unescaped commas and slashes.
func RedactURL(list string) string {
	var out []string
	for list != "" {
		end := len(list)
		if next := schemes.FindAllStringIndex(list, 2); len(next) > 0 && next[0][0] > 0 {
			end = next[0][0]
		} else if len(next) > 1 {
			end = next[1][0]
		}
		out = append(out, redactPart(strings.TrimSpace(list[:end])))
		list = strings.TrimPrefix(list[end:], ",")
	}
	return strings.Join(out, ",")
}

// redactPart redacts a part of the list in which only the first server may have
// a scheme.
func redactPart(part string) string {
	scheme, rest, found := strings.Cut(part, "://")
	if scheme += "://"; !found {
		scheme, rest = "", part
	}
	at := strings.LastIndexByte(rest, '@')
	query := strings.IndexByte(rest, '?')
	if at >= 0 && query >= 0 && query < at && strings.Contains(rest[query:at], "=") {
		return scheme + "***" // ?token=…@…: the @ may belong to the token, or to a password with ? and =
	}
	servers := strings.Split(rest[at+1:], ",")
	for i, s := range servers {
		s = strings.TrimSpace(s)
		bare := s
		if end := strings.IndexAny(s, "/?#"); end >= 0 {
			bare = s[:end]
		}
		switch {
		case !address.MatchString(bare):
			s = "***"
		case bare != s && s != bare+"/":
			s = bare + "/***"
		}
		servers[i] = s
	}
	if at >= 0 {
		servers[0] = "***@" + servers[0]
	}
	return scheme + strings.Join(servers, ",")
}
