package queue

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// checkURLs refuses what is no list of NATS URLs before a broker is dialled. A
// password with an unescaped / ? # or comma ends the address there, and its
// beginning would be dialled as host and port, and printed. The URL itself is
// never quoted.
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
	}
	return nil
}

var (
	schemes = regexp.MustCompile(`(^|,)\s*[a-z]{2,5}://`)
	address = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?$`)
)

// RedactURL takes user names, passwords and tokens out of a comma-separated
// list of NATS URLs, for messages. It leaves what is surely an address. In a
// part of the list that begins with a scheme, everything up to the last @ is
// hidden, since a password may hold commas and slashes that nobody escaped.
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

// redactPart hides what is secret in servers of which the first alone may have
// a scheme.
func redactPart(part string) string {
	scheme, rest, found := strings.Cut(part, "://")
	if scheme += "://"; !found {
		scheme, rest = "", part
	}
	at := strings.LastIndexByte(rest, '@')
	query := strings.IndexByte(rest, '?')
	if at >= 0 && query >= 0 && query < at && strings.Contains(rest[query:at], "=") {
		return scheme + "***" // ?token=…@…: an @ of the token, or of a password with ? and = in it
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
