#!/usr/bin/env bash
# Publishes an order with the nats CLI, and reads its result. Needs nats and jq.
#
#   orders.sh publish ID '{"order_no":"A-1001","timeout":30}'
#   orders.sh result A-1001
#   orders.sh token A-1001
#
# publish prints the broker's answer; docs/producers.md says what it means.
# NATS_URL, and NATS_TOKEN where the broker asks for one, say where it is.
set -euo pipefail

# token encodes an order_no as one token of a NATS subject: every byte outside
# A-Z a-z 0-9 _ - becomes %XX.
token() {
  local LC_ALL=C text=$1 out= c i # LC_ALL=C: bytes, not characters
  ((${#text} >= 1 && ${#text} <= 255)) || { echo "order_no is not a string of 1 to 255 bytes" >&2; return 1; }
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    case $c in
      [A-Za-z0-9_-]) out+=$c ;;
      *) printf -v c '%%%02X' "'$c"; out+=%${c: -2} ;; # a byte above 127 can come out as a negative number
    esac
  done
  printf '%s\n' "$out"
}

# nats_request SUBJECT BODY [HEADER] prints the answer; nothing where none came.
# The CLI takes a token for a user's name, and fills in {{ }} in what it sends.
nats_request() {
  case $2${3:-} in
    *'{{'*) echo "the nats CLI would change {{ in the message; use another client" >&2; return 1 ;;
  esac
  NATS_USER=${NATS_TOKEN:-${NATS_USER:-}} nats request --raw ${3:+--header "$3"} "$1" "$2"
}

case ${1:-} in
  token) token "$2" ;;
  publish)
    name=$(token "$(jq -r .order_no <<<"$3")")
    nats_request "orders.new.$name" "$3" "Nats-Msg-Id:$2"
    ;;
  result)
    query="{\"last_by_subj\":\"orders.results.$(token "$2")\"}"
    nats_request '$JS.API.STREAM.MSG.GET.ORDERS_RESULTS' "$query" |
      jq 'if .message then .message.data | @base64d | fromjson | {settled: (.outcome != "retrying")} + .
          else .error end'
    ;;
  *) echo "usage: orders.sh publish ID BODY | result ORDER_NO | token ORDER_NO" >&2; exit 2 ;;
esac
