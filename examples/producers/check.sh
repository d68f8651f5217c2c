#!/usr/bin/env bash
# Checks the encoders of every language against the vectors, and the syntax of
# the rest. Needs go, node, python3, a JDK and jq; fails where one is missing.
# `go test ./...` checks Go and JavaScript by itself.
set -euo pipefail
cd "$(dirname "$0")"
vectors=$PWD/../vectors/subjects.jsonl
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

go test -count=1 ./go

for f in node/*.js; do node --check "$f"; done
node - "$vectors" "$PWD/node/subject.js" <<'JS'
const { token } = require(process.argv[3]);
const lines = require("fs").readFileSync(process.argv[2], "utf8").trim().split("\n").map(JSON.parse);
for (const v of lines) {
  let have = "refused";
  try { have = "orders.new." + token(v.order_no); } catch {}
  if (have !== (v.subject ?? "refused")) throw new Error(`${v.name}: ${have}`);
}
console.log(`node: ${lines.length} vectors`);
JS

export PYTHONPYCACHEPREFIX=$tmp
python3 -m py_compile python/*.py
PYTHONPATH=python python3 - "$vectors" <<'PY'
import json, sys
from subject import token
lines = [json.loads(line) for line in open(sys.argv[1], encoding="ascii")]
for v in lines:
    try:
        have = "orders.new." + token(v["order_no"])
    except ValueError:
        have = "refused"
    assert have == v.get("subject", "refused"), (v["name"], have)
print(f"python: {len(lines)} vectors")
PY

javac -d "$tmp" java/OrderSubject.java java/CheckVectors.java # PublishOrder needs jnats on the class path
java -cp "$tmp" CheckVectors "$vectors"

checked=0
while IFS= read -r line; do
  case $line in
    *'\u0000'*|*surrogate*) continue ;; # no shell argument holds these
  esac
  want=$(jq -r '.subject // "refused"' <<<"$line")
  no=$(jq -j .order_no <<<"$line"; echo .)
  have=$(cli/orders.sh token "${no%.}" 2>/dev/null) && have=orders.new.$have || have=refused
  [ "$have" = "$want" ] || { echo "shell: $line: $have"; exit 1; }
  checked=$((checked + 1))
done <"$vectors"
echo "shell: $checked vectors"
