"""Brings an order over HTTP and waits for its outcome (docs/gateway.md), or receives webhooks (docs/notify.md).

    python3 orders.py submit KEY '{"order_no":"A-1001","timeout":30}'
    python3 orders.py receive 8090

ORDERPOST_URL is the door, ORDERPOST_TOKEN your token, WEBHOOK_SECRET what `orderpost notify secret` printed.
"""
import base64, hashlib, hmac, http.client, json, os, sys, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DOOR = os.environ.get("ORDERPOST_URL", "http://127.0.0.1:8080")
TOKEN, SECRET = os.environ.get("ORDERPOST_TOKEN"), os.environ.get("WEBHOOK_SECRET", "")


def ask(method, path, headers=None, body=None):
    """Sends a request again while the door cannot answer. Its key names the submission, so nothing is stored twice."""
    headers = dict(headers or {}, **({"Authorization": "Bearer " + TOKEN} if TOKEN else {}))
    for left in range(19, -1, -1):
        pause = 1
        try:
            with urllib.request.urlopen(urllib.request.Request(DOOR + path, body, headers, method=method), timeout=60) as answer:
                return answer.status, answer.headers.get("Location"), json.load(answer)
        except urllib.error.HTTPError as err:
            problem = f"{err.code}: {err.read().decode()}"
            if err.code not in (408, 429, 503, 504):  # it says what to correct
                sys.exit(problem)
            pause = int(err.headers.get("Retry-After") or 1)
        except (OSError, http.client.HTTPException) as err:  # no whole answer: nobody knows whether the order is stored
            problem = str(err)
        if left:
            time.sleep(pause)
    sys.exit(problem)


def submit(key, body):
    """May be called again with the same key: keep it with the order before the first call."""
    status, location, _ = ask("POST", "/v1/orders", {"Content-Type": "application/json", "Idempotency-Key": key}, body.encode())
    order = {"state": "pending"}
    while order["state"] == "pending":
        _, _, order = ask("GET", location + "&wait=30s")
    print(f"{'stored' if status == 201 else 'known'}: {order['outcome']}, created: {order['created']}")


def genuine(headers, body):
    """Reports whether we and the sender share the secret, and the event was signed within five minutes."""
    ident, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > 300:
        return False
    mac = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), f"{ident}.{at}.".encode() + body, hashlib.sha256)
    want = b"v1," + base64.b64encode(mac.digest())
    signatures = headers.get("webhook-signature", "").encode().split()  # two while the secret is replaced
    return any(hmac.compare_digest(one, want) for one in signatures)


class Receiver(BaseHTTPRequestHandler):
    seen, last, lock = set(), {}, threading.Lock()  # in your program: a database, written before the answer

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not genuine(self.headers, body):
            return self.answer(401)
        event, ident = json.loads(body), self.headers["webhook-id"]
        data = event["data"]
        no, position = data.get("order_no"), data.get("position", 0)  # an event of the fleet has neither
        with self.lock:
            if ident not in self.seen and (no is None or position > self.last.get(no, 0)):  # neither a repetition, nor older than what we know
                self.last[no] = position
                print(event["type"], no, data.get("outcome"), flush=True)
            self.seen.add(ident)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


if sys.argv[1:2] == ["submit"] and len(sys.argv) == 4:
    submit(*sys.argv[2:])
elif sys.argv[1:2] == ["receive"] and len(sys.argv) == 3 and SECRET:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver)
    print(f"receiving at http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
else:
    sys.exit("usage: orders.py submit KEY BODY | WEBHOOK_SECRET=… orders.py receive PORT")
