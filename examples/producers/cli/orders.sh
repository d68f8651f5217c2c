#!/usr/bin/env bash
# Publishes an order with the nats CLI, and reads its result. Needs nats and jq.
# Or HTTP, without NATS (docs/gateway.md): curl --json '{"order_no":"A-1001","timeout":30}' http://127.0.0.1:8080/v1/orders
#
#   orders.sh publish ID '{"order_no":"A-1001","timeout":30}'
#   orders.sh result A-1001 [ID]
#   orders.sh token A-1001
#
# publish prints the broker's answer; docs/producers.md says what it means.
# result with an ID gives the result of that submission; null where the last word
# is about others alone.
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

usage() {
  echo "usage: orders.sh publish ID BODY | result ORDER_NO [ID] | token ORDER_NO" >&2
  exit 2
}

# of_submission is a jq program. A submission that is named among the conflicts
# was refused: the order_no belongs to a submission with another body. Until that is accepted, nobody knows which of the two exists.
of_submission='
  if $id == "" then .
  elif any(.conflicts[]?; .intent_id == $id) then
    if .outcome == "accepted" then
      {order_no, outcome: "rejected", intent_id: $id,
       reason: "conflict: the order_no was accepted with another body"}
    else . end
  elif .intent_id == $id then . else null end'

case ${1:-} in
  token)
    (($# == 2)) || usage
    token "$2"
    ;;
  publish)
    (($# == 3)) || usage
    name=$(token "$(jq -r .order_no <<<"$3")")
    nats_request "orders.new.$name" "$3" "Nats-Msg-Id:$2"
    ;;
  result)
    (($# == 2 || $# == 3)) || usage
    query="{\"last_by_subj\":\"orders.results.$(token "$2")\"}"
    nats_request '$JS.API.STREAM.MSG.GET.ORDERS_RESULTS' "$query" |
      jq --arg id "${3:-}" 'if .message then .message.data | @base64d | fromjson | '"$of_submission"' |
          if . then {settled: (.outcome != "retrying")} + . else . end
          else .error end'
    ;;
  *) usage ;;
esac
