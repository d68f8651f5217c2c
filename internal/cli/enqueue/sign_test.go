package enqueue_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/order"
)

const (
	signSecret    = "secret"
	signBody      = `{"order_no":"A-1001","timeout":3600,"amount":"12.50"}`
	signSent      = `{"order_no":"A-1001","timeout":3600,"amount":"12.50","timestamp":1700000000000}`
	signText      = `amount=12.50&order_no=A-1001&timeout=3600&timestamp=1700000000000`
	signSignature = "08dac70ab4008ad5908e120d96995c333c0364c2b1e80eb7b84553d0d90cfe76" // from the vectors
)

// runSign runs "sign" with the vectors' time. All that it can print is in out.
func runSign(t *testing.T, environ map[string]string, stdin string, args ...string) (stdout, all string, code int) {
	t.Helper()
	var out, errOut strings.Builder
	code = enqueue.Run(t.Context(), append([]string{"sign", "--timestamp", "1700000000000"}, args...), environ, strings.NewReader(stdin), &out, &errOut)
	return out.String(), out.String() + errOut.String(), code
}

var withSecret = map[string]string{"ORDERPOST_API_SECRET": signSecret}

func TestSign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.json")
	require.NoError(t, os.WriteFile(path, []byte(signBody+"\n"), 0o600))
	for name, args := range map[string][]string{"file": {path}, "stdin": {"-"}} {
		t.Run(name, func(t *testing.T) {
			stdout, all, code := runSign(t, withSecret, signBody, args...)
			require.Equal(t, cli.ExitDone, code)
			require.Equal(t, signSignature+"\n", stdout)
			require.Equal(t, stdout, all)

			stdout, _, code = runSign(t, withSecret, signBody, append(args, "--explain")...)
			require.Equal(t, cli.ExitDone, code)
			require.Equal(t, "canonical body:\n"+signSent+"\n\nstring to sign:\n"+signText+"\n\nsignature:\n"+signSignature+"\n", stdout)
		})
	}
}

func TestSignJSON(t *testing.T) {
	stdout, _, code := runSign(t, withSecret, `{"coupon":null,"note":"<&>"}`, "-", "--json")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, stdout, "<&>", "shown as it is signed")
	var got struct {
		Canonical    string          `json:"canonical"`
		StringToSign string          `json:"string_to_sign"`
		Signature    string          `json:"signature"`
		Warnings     []order.Warning `json:"warnings"`
		Given        any             `json:"given"`
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&got))
	require.Equal(t, `{"coupon":null,"note":"<&>","timestamp":1700000000000}`, got.Canonical)
	require.Equal(t, `coupon=null&note=<&>&timestamp=1700000000000`, got.StringToSign)
	require.Len(t, got.Signature, 64)
	require.Len(t, got.Warnings, 1)
	require.Equal(t, order.WarnNull, got.Warnings[0].Code)
	require.Nil(t, got.Given)
}

func TestSignComparesAGivenSignature(t *testing.T) {
	stdout, _, code := runSign(t, withSecret, signBody, "-", "--signature", signSignature)
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, stdout, "the given signature is right")

	stdout, _, code = runSign(t, withSecret, signBody, "-", "--json", "--signature", strings.ToUpper(signSignature))
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, stdout, `"matches": false`)

	stdout, _, code = runSign(t, withSecret, signSent, "-", "--timestamp", "1", "--signature", signSignature)
	require.Equal(t, cli.ExitDone, code, "a difference is an answer, not a failure")
	require.Contains(t, stdout, "the given signature differs. Compare your string to sign")
}

func TestSignShowsWarnings(t *testing.T) {
	stdout, _, code := runSign(t, withSecret, `{"orderNo":1,"coupon":null}`, "-", "--explain")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, stdout, "\nwarnings:\n- orderNo: ")
	require.Contains(t, stdout, "\n- coupon: ")
}

func TestSignRefusesBodies(t *testing.T) {
	for body, why := range map[string]order.Code{
		`{"amount":9007199254740993}`:           order.CodeNumberNotExact,
		`{"a":1,"a":2}`:                         order.CodeDuplicateName,
		`[]`:                                    order.CodeNotObject,
		``:                                      order.CodeInvalidJSON,
		strings.Repeat(" ", order.MaxBody*2):    order.CodeTooLarge,
		`{"a":"` + "\xff" + `"}`:                order.CodeInvalidUTF8,
		strings.Repeat(`{"a":`, 100) + "1}}}}}": order.CodeTooDeep,
	} {
		stdout, all, code := runSign(t, withSecret, body, "-", "--explain")
		require.Equal(t, cli.ExitPartial, code, all)
		require.Empty(t, stdout)
		require.Contains(t, all, string(why))
	}
}

func TestSignUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no file": {}, "two files": {"a", "b"}, "unknown flag": {"-", "--secret=x"},
		"no number": {"-", "--timestamp", "today"}, "bad timestamp": {"-", "--timestamp", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, all, code := runSign(t, withSecret, signBody, args...)
			require.Equal(t, cli.ExitUsage, code, all)
		})
	}
	_, all, code := runSign(t, withSecret, "", filepath.Join(t.TempDir(), "absent.json"))
	require.Equal(t, cli.ExitFailed, code, all)
	require.Contains(t, all, "no such file")
}

func TestSignSecret(t *testing.T) {
	write := func(text string) map[string]string {
		path := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return map[string]string{"ORDERPOST_API_SECRET_FILE": path}
	}
	for _, text := range []string{signSecret, signSecret + "\n", signSecret + "\r\n", "\n" + signSecret + "\nanother\n"} {
		stdout, _, code := runSign(t, write(text), signBody, "-")
		require.Equal(t, cli.ExitDone, code)
		require.Equal(t, signSignature+"\n", stdout, "%q", text)
	}
	stdout, _, code := runSign(t, write("another\r\n"+signSecret+"\r\n"), signBody, "-", "--pair", "2")
	require.Equal(t, cli.ExitDone, code)
	require.Equal(t, signSignature+"\n", stdout)
	for _, text := range []string{" " + signSecret, signSecret + " "} {
		stdout, _, code := runSign(t, write(text), signBody, "-")
		require.Equal(t, cli.ExitDone, code)
		require.NotEqual(t, signSignature+"\n", stdout, "%q is another secret", text)
	}
	for name, environ := range map[string]map[string]string{
		"none": nil, "empty": {"ORDERPOST_API_SECRET": ""}, "empty file": write("\n"),
		"no such file": {"ORDERPOST_API_SECRET_FILE": filepath.Join(t.TempDir(), "absent")},
		"both":         {"ORDERPOST_API_SECRET": signSecret, "ORDERPOST_API_SECRET_FILE": "x"},
	} {
		_, all, code := runSign(t, environ, signBody, "-")
		require.Equal(t, cli.ExitUsage, code, all)
		require.Contains(t, all, "ORDERPOST_API_SECRET", name)
	}
	for _, pair := range []string{"0", "2", "-1"} {
		_, all, code := runSign(t, withSecret, signBody, "-", "--pair", pair)
		require.Equal(t, cli.ExitUsage, code, all)
		require.Contains(t, all, "holds 1 secret(s)")
	}
}

func TestSignNeverPrintsTheSecret(t *testing.T) {
	const secret = "00T0pS3cret00"
	environ := map[string]string{"ORDERPOST_API_SECRET": secret}
	for _, args := range [][]string{
		{"-"}, {"-", "--explain"}, {"-", "--json"}, {"-", "--json", "--signature", signSignature},
		{"-", "--signature", "nonsense"}, {"-", "--timestamp", "-1"}, {"--help"}, {}, {"absent.json"},
	} {
		for _, body := range []string{signBody, `{"a":1e999}`, ""} {
			_, all, _ := runSign(t, environ, body, args...)
			require.NotEmpty(t, all)
			require.NotContains(t, all, secret, "%v", args)
		}
	}
}
