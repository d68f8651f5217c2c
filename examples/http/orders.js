"use strict";

// Brings an order over HTTP and waits for its outcome (docs/gateway.md), or receives webhooks (docs/notify.md).
// Needs Node 18, and nothing else.
//
//   node orders.js submit KEY '{"order_no":"A-1001","timeout":30}'
//   node orders.js receive 8090
//
// ORDERPOST_URL is the door, ORDERPOST_TOKEN your token, WEBHOOK_SECRET what `orderpost notify secret` printed.
const crypto = require("node:crypto");
const http = require("node:http");
const { ORDERPOST_URL: door = "http://127.0.0.1:8080", ORDERPOST_TOKEN: token, WEBHOOK_SECRET: secret } = process.env;

// ask sends a request again while the door cannot answer. Its key names the submission, so nothing is stored twice.
async function ask(method, path, headers = {}, body) {
  if (token) headers.Authorization = `Bearer ${token}`;
  for (let tries = 1; ; tries++) {
    let pause = 1, problem;
    try {
      const answer = await fetch(door + path, { method, headers, body, signal: AbortSignal.timeout(60_000) });
      const text = await answer.text(); // the answer may break off: then nobody knows whether the order is stored
      if (answer.ok) return { status: answer.status, location: answer.headers.get("Location"), ...JSON.parse(text) };
      problem = new Error(`${answer.status}: ${text}`);
      if (![408, 429, 503, 504].includes(answer.status)) tries = Infinity; // it says what to correct
      pause = Number(answer.headers.get("Retry-After")) || 1;
    } catch (err) {
      problem = err;
    }
    if (tries >= 20) throw problem;
    await new Promise((wake) => setTimeout(wake, pause * 1000));
  }
}

// submit may be called again with the same key: keep it with the order before the first call.
async function submit(key, body) {
  const receipt = await ask("POST", "/v1/orders", { "Content-Type": "application/json", "Idempotency-Key": key }, body);
  let order;
  do order = await ask("GET", receipt.location + "&wait=30s"); while (order.state === "pending");
  console.log(`${receipt.status === 201 ? "stored" : "known"}: ${order.outcome}, created: ${order.created}`);
}

// genuine reports whether we and the sender share the secret, and the event was signed within five minutes.
function genuine(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signatures = "" } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const want = crypto.createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest();
  return signatures.split(" ").some((one) => { // two while the secret is replaced
    const have = Buffer.from(one.replace(/^v1,/, ""), "base64");
    return have.length === want.length && crypto.timingSafeEqual(have, want);
  });
}

function receive(port) {
  const seen = new Set(), last = new Map(); // in your program: a database, written before the answer
  http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    if (!genuine(request.headers, body)) return response.writeHead(401).end();
    const { type, data } = JSON.parse(body), id = request.headers["webhook-id"];
    if (!seen.has(id) && !(data.position <= last.get(data.order_no))) { // neither a repetition, nor older than what we know
      last.set(data.order_no, data.position);
      console.log(`${type} ${data.order_no} ${data.outcome}`);
    }
    seen.add(id);
    response.writeHead(204).end();
  }).listen(Number(port), "127.0.0.1", function () { console.log(`receiving at http://127.0.0.1:${this.address().port}`); });
}

const [command, ...args] = process.argv.slice(2);
if (command === "submit" && args.length === 2) submit(...args).catch((err) => { console.error(err.message); process.exitCode = 1; });
else if (command === "receive" && args.length === 1 && secret) receive(...args);
else { console.error("usage: orders.js submit KEY BODY | WEBHOOK_SECRET=… orders.js receive PORT"); process.exitCode = 2; }
