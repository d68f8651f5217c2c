// This example brings an order over HTTP and waits for its outcome (docs/gateway.md), or receives webhooks (docs/notify.md).
//
//	go run orders.go submit KEY '{"order_no":"A-1001","timeout":30}'
//	go run orders.go receive 8090
//
// ORDERPOST_URL is the door, ORDERPOST_TOKEN your token, WEBHOOK_SECRET what `orderpost notify secret` printed.
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var client = http.Client{Timeout: time.Minute}

// ask sends a request again while the door cannot answer. Its key names the submission, so nothing is stored twice.
func ask(method, path, key, body string) (status int, location string, answer map[string]any) {
	for tries := 1; ; tries++ {
		req, err := http.NewRequest(method, cmp.Or(os.Getenv("ORDERPOST_URL"), "http://127.0.0.1:8080")+path, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Authorization", "Bearer "+os.Getenv("ORDERPOST_TOKEN"))
		pause := 1
		resp, err := client.Do(req)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(resp.Body) // the answer may break off: then nobody knows whether the order is stored
			_ = resp.Body.Close()
			switch {
			case err != nil:
			case slices.Contains([]int{408, 429, 503, 504}, resp.StatusCode):
				pause, _ = strconv.Atoi(cmp.Or(resp.Header.Get("Retry-After"), "1"))
				err = fmt.Errorf("%s: %s", resp.Status, text)
			case resp.StatusCode >= 300: // it says what to correct
				log.Fatalf("%s: %s", resp.Status, text)
			default:
				if err = json.Unmarshal(text, &answer); err == nil {
					return resp.StatusCode, resp.Header.Get("Location"), answer
				}
			}
		}
		if tries == 20 {
			log.Fatal(err)
		}
		time.Sleep(time.Duration(pause) * time.Second)
	}
}

// submit may be called again with the same key: keep it with the order before the first call.
func submit(key, body string) {
	status, location, _ := ask("POST", "/v1/orders", key, body)
	order := map[string]any{"state": "pending"}
	for order["state"] == "pending" {
		_, _, order = ask("GET", location+"&wait=30s", key, "")
	}
	word := map[int]string{http.StatusCreated: "stored", http.StatusOK: "known"}[status]
	fmt.Printf("%s: %s, created: %s\n", word, order["outcome"], order["created"])
}

// genuine reports whether we and the sender share the secret, and the event was signed within five minutes.
func genuine(h http.Header, body []byte) bool {
	at, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil {
		log.Fatal("WEBHOOK_SECRET: ", err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%d.%s", h.Get("Webhook-Id"), at, body)
	want := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for one := range strings.FieldsSeq(h.Get("Webhook-Signature")) { // two while the secret is replaced
		if hmac.Equal([]byte(one), want) {
			return true
		}
	}
	return false
}

func receive(port string) {
	var mu sync.Mutex
	seen, last := make(map[string]bool), make(map[string]int64) // in your program: a database, written before the answer
	take := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !genuine(r.Header, body) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var event struct {
			Type string
			Data struct {
				OrderNo  string `json:"order_no"` // "" = an event of the fleet
				Outcome  string
				Position int64
			}
		}
		if err := json.Unmarshal(body, &event); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		id, d := r.Header.Get("Webhook-Id"), event.Data
		if !seen[id] && (d.OrderNo == "" || d.Position > last[d.OrderNo]) { // neither a repetition, nor older than what we know
			last[d.OrderNo] = d.Position
			fmt.Println(event.Type, d.OrderNo, d.Outcome)
		}
		seen[id] = true
		w.WriteHeader(http.StatusNoContent)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("receiving at http://%s\n", l.Addr())
	server := http.Server{Handler: http.HandlerFunc(take), ReadTimeout: 15 * time.Second}
	log.Fatal(server.Serve(l))
}

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "submit":
		submit(args[1], args[2])
	case len(args) == 2 && args[0] == "receive" && os.Getenv("WEBHOOK_SECRET") != "":
		receive(args[1])
	default:
		log.Fatal("usage: orders submit KEY BODY | WEBHOOK_SECRET=… orders receive PORT")
	}
}
