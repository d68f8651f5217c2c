#!/usr/bin/env bash
# Brings an order over HTTP and waits for its outcome (docs/gateway.md). Needs curl 7.76 and jq.
#
#   orders.sh submit KEY '{"order_no":"A-1001","timeout":30}'
#
# It may run again with the same KEY, which names the submission: nothing is stored twice. `openssl rand -hex 16` makes one; keep
# it with the order before the first run. ORDERPOST_URL is the door, ORDERPOST_TOKEN your token.
set -euo pipefail
[ $# = 3 ] && [ "$1" = submit ] || { echo "usage: orders.sh submit KEY BODY" >&2; exit 2; }
door=${ORDERPOST_URL:-http://127.0.0.1:8080}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# ask METHOD PATH [CURL'S OPTIONS] prints the status. curl sends a request again, after Retry-After, while the door cannot
# answer (408, 429, 503, 504), or where an answer broke off. Of other problems, the answer says what to correct.
ask() {
  local method=$1 path=$2 status
  shift 2
  status=$(curl -sS -X "$method" --max-time 60 --retry 19 --retry-all-errors -o "$tmp/answer" -D "$tmp/headers" -w '%{http_code}' \
    -H @"$tmp/token" "$@" "$door$path") || { echo "the door cannot be reached" >&2; return 1; }
  [ "$status" -lt 300 ] || { echo "$status: $(cat "$tmp/answer")" >&2; return 1; }
  echo "$status"
}

(umask 077; printf 'Authorization: Bearer %s\n' "${ORDERPOST_TOKEN:-}" >"$tmp/token") # no other user sees it among the arguments
stored=$(ask POST /v1/orders -H 'Content-Type: application/json' -H "Idempotency-Key: $2" --data-raw "$3")
location=$(sed -n 's/^location: *//Ip' "$tmp/headers" | tr -d '\r' | tail -n 1)
while ask GET "$location&wait=30s" >"$tmp/status" && [ "$(jq -r .state "$tmp/answer")" = pending ]; do :; done
[ -s "$tmp/status" ] # else the answer is a problem
[ "$stored" = 201 ] && word=stored || word=known
jq -r --arg word "$word" '"\($word): \(.outcome), created: \(.created)"' "$tmp/answer"
