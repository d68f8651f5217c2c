package submit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// forms are the ways in which an API may repeat a key.
func forms(key string) map[string]string {
	quoted, _ := json.Marshal(key)
	twice, _ := json.Marshal(string(quoted))
	var unicode, percent, entities strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&unicode, `\u%04X`, c)
		fmt.Fprintf(&percent, "%%%02x", c)
		fmt.Fprintf(&entities, "&#x%x;", c)
	}
	return map[string]string{
		"plain": key, "JSON": string(quoted), "JSON in JSON": string(twice), "slashes": strings.ReplaceAll(key, "/", `\/`), "all of it in JSON": unicode.String(),
		"query": url.QueryEscape(key), "path": url.PathEscape(key), "query twice": url.QueryEscape(url.QueryEscape(key)), "all of it in a URL": percent.String(),
		"HTML": html.EscapeString(key), "entities": entities.String(), "HTML, quot": strings.ReplaceAll(key, `"`, "&quot;"), "Go": fmt.Sprintf("%q", key),
		"Base64": base64.StdEncoding.EncodeToString([]byte(key)), "Base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(key)),
		"Basic": base64.StdEncoding.EncodeToString([]byte(key + ":")), "Basic 1": base64.StdEncoding.EncodeToString([]byte("u:" + key)), "Basic 2": base64.StdEncoding.EncodeToString([]byte(":" + key + "xx")),
		"hex": fmt.Sprintf("%x", key), "HEX": fmt.Sprintf("%X", key),
	}
}

// A key that the API repeats, in whatever form, is neither logged nor recorded.
func TestKeysThatTheAPIRepeatsAreMasked(t *testing.T) {
	for _, key := range []string{"AKtest-first-key-000A", `AK+te"st/<key>\&=%41~000A`} {
		for name, form := range forms(key) {
			t.Run(name+" "+key[:4], func(t *testing.T) {
				// A body, and one whose key lies where texts are cut.
				for _, body := range []string{"the key " + form + " is not known", strings.Repeat("x", 200-10) + form, `{"error":` + jsonText(strings.Repeat("x", 50)+form) + `}`,
					`{"code":0,"order_no":` + jsonText(strings.Repeat("x", 50)+form) + `}`, form} {
					synctest.Test(t, func(t *testing.T) {
						r := newRigWith(t, &fakeAPI{handle: func(c call) reply {
							return reply{status: []int{200, 502}[c.n%2], body: body, header: map[string]string{"Server": form}}
						}},
							StaticKeys{{Key: key, Signer: &stubSigner{"a"}}}, func(c *Config) { c.BreakerMin, c.Concurrency = 1, 1 })
						reports := r.many("n", 4)
						for _, text := range append([]string{r.log.String(), fmt.Sprint(r.Gate().State(), r.Notes())}, trails(reports)...) {
							require.NotContains(t, text, form, body)
							require.NotContains(t, text, form[:12], body) // nor a part
						}
					})
				}
			})
		}
	}
}

func jsonText(s string) string {
	quoted, _ := json.Marshal(s)
	return string(quoted)
}

func trails(reports []order.Report) []string {
	var out []string
	for _, r := range reports {
		out = append(out, fmt.Sprintf("%+v", r))
	}
	return out
}

func TestWhatIsNoKeyIsLeftAlone(t *testing.T) {
	s := newScrubber([]KeyPair{{Key: keyA}, {Key: keyB}})
	for _, text := range []string{"", `{"message":"50% of \"AKtest-first\" & more"}`, "AKtest-first-key", "QUt0ZXN0"} {
		require.Equal(t, text, s.clean(text))
	}
	require.Equal(t, mask(keyA)+" "+mask(keyB), s.clean(keyA+" "+keyB))
}
