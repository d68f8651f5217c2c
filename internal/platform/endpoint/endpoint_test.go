package endpoint

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHTTP(t *testing.T) {
	for text, wrong := range map[string]string{
		"https://api.example.com":        "",
		"https://api.example.com:":       "",
		"https://api.example.com:65535":  "",
		"https://api.example.com:65536":  "port 65536: give one from 1 to 65535",
		"https://api.example.com:0":      "port 0: give one from 1 to 65535",
		"https://[2001:db8::1]:8443/x?y": "",
		"http://127.0.0.1:8080":          "",
		"http://[::1]:8080":              "",
		"http://[::ffff:127.0.0.1]:8080": "",
		"http://LocalHost":               "",
		"http://Inside":                  "",
		"http://outside":                 "plain http to outside would send the key in clear text: use https, or name the host in ORDERPOST_PLAIN_HTTP_HOSTS",
		"http://localhost.example.com":   "plain http to localhost.example.com would send the key in clear text: use https, or name the host in ORDERPOST_PLAIN_HTTP_HOSTS",
		"ftp://api.example.com":          `scheme "ftp": give https://… (or http://… to loopback)`,
		"api.example.com":                `scheme "": give https://… (or http://… to loopback)`,
		"https://:443":                   "has no host",
		"https://me:word@api":            "must not hold a user name or password",
		"https://api/#part":              "must not hold a fragment",
		"https://api:https":              "is not a URL",
	} {
		u, err := HTTP(text, "the key", []string{" inside "})
		if wrong != "" {
			require.EqualError(t, err, wrong, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, text, u.String())
	}
}

func TestPort(t *testing.T) {
	for host, right := range map[string]bool{"h": true, "h:": true, "h:1": true, "h:4222": true, "h:0": false, "h:70000": false, "h:99999999999999999999": false} {
		require.Equal(t, right, Port(&url.URL{Scheme: "nats", Host: host}) == nil, host)
	}
}

func TestLocal(t *testing.T) {
	for listen, local := range map[string]bool{"127.0.0.1:80": true, "127.9.9.9:0": true, "[::1]:80": true, "localhost:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "127.0.0.1": false, "": false} {
		assert.Equal(t, local, Local(listen), listen)
	}
}
