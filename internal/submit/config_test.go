package submit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/platform/secret"
)

func parseEnv[T any](t *testing.T, vars map[string]string) T {
	t.Helper()
	var c T
	require.NoError(t, env.ParseWithOptions(&c, env.Options{Prefix: "ORDERPOST_", Environment: vars}))
	return c
}

func TestDefaultsAreValid(t *testing.T) {
	require.NoError(t, DefaultConfig("https://api.test").Validate())
}

func TestConfigIsReadFromTheEnvironment(t *testing.T) {
	got := parseEnv[Config](t, map[string]string{
		"ORDERPOST_API_URL": "http://api.internal:8080/x/", "ORDERPOST_PLAIN_HTTP_HOSTS": "api.internal,other",
		"ORDERPOST_ON_UNSURE": "park", "ORDERPOST_CLOCK": "server", "ORDERPOST_RATE_LIMIT": "2.5", "ORDERPOST_REQUEST_TIMEOUT": "7s",
	})
	require.NoError(t, got.Validate())
	require.Equal(t, order.Park, got.OnUnsure)
	require.Equal(t, ClockServer, got.Clock)
	require.Equal(t, 7*time.Second, got.RequestTimeout)
	var c Config
	err := env.ParseWithOptions(&c, env.Options{Prefix: "ORDERPOST_", Environment: map[string]string{"ORDERPOST_ON_UNSURE": "x", "ORDERPOST_CLOCK": "y"}})
	require.ErrorContains(t, err, "resubmit")
	require.ErrorContains(t, err, "local or server")
}

func TestEverySettingIsDescribed(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[KeyConfig]()} {
		for i := range typ.NumField() {
			f := typ.Field(i)
			require.NotEmpty(t, f.Tag.Get("env"), f.Name)
			if f.Tag.Get("env") == "-" {
				continue
			}
			require.NotEmpty(t, f.Tag.Get("desc"), f.Name)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for url, want := range map[string]string{ // "" = good
		"https://api.example.com":                 "",
		"https://api.example.com/":                "",
		"https://api.example.com:8443/sub":        "",
		"http://localhost:8080":                   "",
		"http://127.0.0.1:1":                      "",
		"http://127.9.9.9":                        "",
		"http://[::1]:8080":                       "",
		"":                                        "is required",
		"https://api.example.com/v1":              "leave /v1 out",
		"https://api.example.com/v1/":             "leave /v1 out",
		"https://api.example.com/v1/order/create": "leave /v1 out",
		"http://api.example.com":                  "ORDERPOST_PLAIN_HTTP_HOSTS",
		"http://localhost.example.com":            "ORDERPOST_PLAIN_HTTP_HOSTS",
		"http://10.0.0.1":                         "ORDERPOST_PLAIN_HTTP_HOSTS",
		"ftp://api.example.com":                   "scheme",
		"api.example.com":                         "scheme",
		"https://":                                "no host",
		"https://u:pass-word@h":                   "user name or password",
		"https://h?x=1":                           "query",
		"https://h#x":                             "fragment",
		"https://h\x7f:pass-word":                 "not a URL",
	} {
		err := DefaultConfig(url).Validate()
		if want == "" {
			require.NoError(t, err, url)
			continue
		}
		require.ErrorContains(t, err, "ORDERPOST_API_URL", url)
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "pass-word")
	}
}

func TestEveryBadSettingIsNamedAtOnce(t *testing.T) {
	c := Config{RateLimit: math.NaN(), BreakerRatio: 2, HoldRetry: -1, RefusalRun: -1}
	err := c.Validate()
	for _, name := range []string{"API_URL", "REQUEST_TIMEOUT", "IDLE_TIMEOUT", "RETRY_DELAY_MAX", "RETRY_TOTAL_ATTEMPTS", "RETRY_TOTAL_AGE",
		"CONCURRENCY", "RATE_LIMIT", "HOLD_RETRY", "REFUSAL_RUN", "BREAKER_RATIO"} {
		require.ErrorContains(t, err, "ORDERPOST_"+name+":")
	}
}

func TestCAFile(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.pem")
	require.NoError(t, os.WriteFile(bad, []byte("nothing"), 0o600))
	for _, file := range []string{bad, filepath.Join(dir, "none.pem")} {
		_, err := New(testConfig(func(c *Config) { c.CAFile = file }), Deps{Keys: StaticKeys{pair(keyA)}})
		require.ErrorContains(t, err, "ORDERPOST_API_CA_FILE")
	}
}

func TestTheHTTPClientsSettings(t *testing.T) {
	cfg := DefaultConfig("https://api.test/b ase/")
	base, err := cfg.baseURL()
	require.NoError(t, err)
	got := cfg.http(base, nil)
	require.Equal(t, "https://api.test/b%20ase/v1/order/create", got.Orders.String())
	require.Equal(t, "https://api.test/b%20ase/v1/account", got.Account.String())
	require.False(t, got.AllHeaders)
	require.False(t, got.OtherOrderNo())

	cfg.Rules = "rules.yaml"
	got = cfg.http(base, mustRules(t, "rules:\n  - when: status == 200\n    verdict: accepted\n    other_order_no: true\n"))
	require.True(t, got.AllHeaders)
	require.True(t, got.OtherOrderNo())
}

func signerOf(secret string) (Signer, error) {
	if secret == "bad" {
		return nil, errors.New("refused")
	}
	return &stubSigner{secret}, nil
}

func TestKeysFromSettings(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  KeyConfig
		want string // "" = good
	}{
		"one":             {KeyConfig{Key: "k", Secret: "s"}, ""},
		"two":             {KeyConfig{Key: "k1\nk2\n", Secret: "s1\r\ns2"}, ""},
		"ten":             {KeyConfig{Key: secret.Text(numbered(10)), Secret: secret.Text(numbered(10))}, ""},
		"none":            {KeyConfig{}, "ORDERPOST_API_KEY (or ORDERPOST_API_KEY_FILE): is required"},
		"no secret":       {KeyConfig{Key: "k"}, "ORDERPOST_API_SECRET (or ORDERPOST_API_SECRET_FILE): is required"},
		"both forms":      {KeyConfig{Key: "k", KeyFile: "f", Secret: "s"}, "give one of them"},
		"eleven":          {KeyConfig{Key: secret.Text(numbered(11)), Secret: secret.Text(numbered(11))}, "at most 10"},
		"fewer secrets":   {KeyConfig{Key: "k1\nk2", Secret: "s"}, "2 key(s), ORDERPOST_API_SECRET 1 secret(s)"},
		"twice":           {KeyConfig{Key: "k\nk", Secret: "s\nt"}, "occurs twice"},
		"blank":           {KeyConfig{Key: "\n", Secret: "\n"}, "no API key pair"},
		"space in key":    {KeyConfig{Key: "secret key", Secret: "s"}, "cannot be sent in a header"},
		"signer refuses":  {KeyConfig{Key: "k", Secret: "bad"}, "ORDERPOST_API_SECRET: secret 1: refused"},
		"file is missing": {KeyConfig{KeyFile: "/does/not/exist", Secret: "s"}, "ORDERPOST_API_KEY_FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewFileKeys(c.cfg, signerOf)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret key")
		})
	}
}

// An error names the variable that is in use, and its file.
func TestKeyErrorsNameTheVariableInUse(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "value")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	two, one, twice, bad := file("k1\nk2\n"), file("s1\n"), file("k\nk\n"), file("bad")
	for want, cfg := range map[string]KeyConfig{
		"ORDERPOST_API_KEY_FILE (" + two + ") holds 2 key(s), ORDERPOST_API_SECRET 1 secret(s)": {KeyFile: two, Secret: "s"},
		"ORDERPOST_API_KEY holds 2 key(s), ORDERPOST_API_SECRET_FILE (" + one + ") 1 secret(s)": {Key: "a\nb", SecretFile: one},
		"ORDERPOST_API_KEY_FILE (" + twice + "): API key 2 occurs twice":                        {KeyFile: twice, Secret: "s\nt"},
		"ORDERPOST_API_SECRET_FILE (" + bad + "): secret 1: refused":                            {Key: "k", SecretFile: bad},
	} {
		_, err := NewFileKeys(cfg, signerOf)
		require.ErrorContains(t, err, want)
	}
	marked := file("\ufeffs1\r\n") // as Windows writes it
	keys, err := NewFileKeys(KeyConfig{KeyFile: marked, SecretFile: marked}, signerOf)
	require.NoError(t, err)
	pairs, err := keys.Pairs()
	require.NoError(t, err)
	require.Equal(t, "s1", string(pairs[0].Key))
	keys, err = NewFileKeys(KeyConfig{KeyFile: one, SecretFile: one}, signerOf)
	require.NoError(t, err)
	require.Equal(t, "ORDERPOST_API_KEY_FILE ("+one+") and ORDERPOST_API_SECRET_FILE ("+one+")", keys.Where())
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, "value", i)
	}
	return strings.ReplaceAll(b.String(), " ", "")
}

func TestKeysFromFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	keyFile, secretFile := filepath.Join(dir, "key"), filepath.Join(dir, "secret")
	write := func(key, secret string) {
		require.NoError(t, os.WriteFile(keyFile, []byte(key), 0o600))
		require.NoError(t, os.WriteFile(secretFile, []byte(secret), 0o600))
	}
	write("k1\n", " s 1 \n")
	f, err := NewFileKeys(KeyConfig{KeyFile: keyFile, SecretFile: secretFile}, signerOf)
	require.NoError(t, err)
	first, err := f.Pairs()
	require.NoError(t, err)
	require.Equal(t, &stubSigner{" s 1 "}, first[0].Signer, "a secret is taken as it is, but for the line end")
	again, err := f.Pairs()
	require.NoError(t, err)
	require.True(t, first[0] == again[0])

	write("k0\nk1\n", "s0\n s 1 \n")
	two, err := f.Pairs()
	require.NoError(t, err)
	require.Len(t, two, 2)
	require.True(t, first[0] == two[1], "an unchanged pair keeps its signer")

	write("k0\nk1\nk2", "s0\n")
	_, err = f.Pairs()
	require.Error(t, err, "half written")
	write("k1\n", "other\n")
	changed, err := f.Pairs()
	require.NoError(t, err)
	require.False(t, first[0] == changed[0])
}

func TestNothingPrintsAKeyOrASecret(t *testing.T) {
	p := KeyPair{Key: "AKverysecretkey0001", Signer: &stubSigner{"verysecretsecret"}}
	cfg := KeyConfig{Key: "AKverysecretkey0001", Secret: "verysecretsecret"}
	for _, v := range []any{p, &p, []KeyPair{p}, cfg, &cfg, map[string]any{"a": p, "b": cfg}, struct{ A KeyPair }{p}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			require.NotContains(t, fmt.Sprintf(verb, v), "verysecret", verb)
			require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", "verysecret"), verb)
		}
		j, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(j), "verysecret")
		var log strings.Builder
		l := zerolog.New(&log)
		l.Info().Any("v", v).Interface("w", v).Str("s", fmt.Sprint(v)).Msg("")
		require.NotContains(t, log.String(), "verysecret")
	}
	require.Equal(t, "AK…01", p.String())
	require.Equal(t, "****", KeyPair{Key: "short"}.String())
	require.Equal(t, "****", fmt.Sprint(cfg.Secret))
	require.Empty(t, fmt.Sprint(secret.Text("")))
}

func TestBadKeySources(t *testing.T) {
	for _, keys := range []KeySource{StaticKeys{}, StaticKeys{{Key: "k"}}, &mutableKeys{err: errors.New("x")}, StaticKeys(make([]KeyPair, 11))} {
		_, err := New(testConfig(nil), Deps{Keys: keys, Sender: &fakeAPI{}})
		require.Error(t, err)
	}
}

func TestARulesFileThatIsMissingIsNamed(t *testing.T) {
	_, err := New(testConfig(func(c *Config) { c.Rules = "/does/not/exist" }), Deps{Keys: StaticKeys{pair(keyA)}, Sender: &fakeAPI{}})
	require.ErrorContains(t, err, "ORDERPOST_RULES")
}
