#!/usr/bin/env bash
# Writes what the owner of orderpost decides into every file that says it. The targets of
# the Makefile run it:
#
#   make version VERSION=0.2.0
#   make module MODULE=example.com/you/orderpost
#   make licence LICENCE=Apache-2.0 TEXT=FILE     (an SPDX identifier, and the licence's text)
#
# Each may be run again with another value. git diff shows what it changed.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "$*" >&2; exit 2; }

# replace EXPRESSION FILE… edits files in place, line by line.
replace() { perl -pi -e "$@"; }

# tell WHAT TEXT writes the owner's line of CONTRIBUTING.md.
tell() { WHAT=$1 TEXT=$2 replace 's#^- \*\*$ENV{WHAT}\.\*\* .*#- **$ENV{WHAT}.** $ENV{TEXT}#' CONTRIBUTING.md; }

version() {
  [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "VERSION=$1: give three numbers, as in VERSION=0.2.0"
  export TO=$1
  replace 's/^(const Number = ").*"/$1$ENV{TO}"/' internal/cli/version.go
  replace 's/^(  version: )\d.*/$1$ENV{TO}/' docs/openapi.yaml docs/asyncapi.yaml
  replace 's/^((?:v|appV)ersion: ").*"/$1$ENV{TO}"/' deployments/helm/orderpost/Chart.yaml
}

# A path of a package follows the module's. A folder that is called so, such as
# /usr/share/doc/orderpost/docs, is none.
module() {
  [[ $1 =~ ^[a-z0-9.-]+\.[a-z]+(/[A-Za-z0-9._-]+)+$ ]] || fail "MODULE=$1: give a host and a path, as in MODULE=example.com/you/orderpost"
  export TO=$1 FROM
  FROM=$(sed -nE 's/^module ([^ ]+).*/\1/p' go.mod)
  local files=(find . \( -name .git -o -name dist -o -name testdata \) -prune -o -type f)
  "${files[@]}" \( -name '*.go' -o -name Dockerfile -o -name '*.md' -o -path './.ci/*' \) -print0 |
    xargs -0 perl -pi -e 's#(?<![\w./-])\Q$ENV{FROM}\E(?=/(internal|cmd|client|proof|tools|docs|examples)\b|/")#$ENV{TO}#g'
  "${files[@]}" -name go.mod -print0 | xargs -0 perl -pi -e 's#^(module |replace |require |\t)\Q$ENV{FROM}\E(?=[ /\n])#$1$ENV{TO}#'
  "${files[@]}" -name '*.go' -print0 | xargs -0 gofmt -w
  tell Address "Its module is \`$1\`."
}

licence() {
  [[ $1 =~ ^[A-Za-z0-9.+-]+$ ]] || fail "LICENCE=$1: give an SPDX identifier, as in LICENCE=Apache-2.0"
  [ -s "$2" ] || fail "TEXT=$2: give the file that holds the licence's text"
  [ "$2" -ef LICENSE ] || cp "$2" LICENSE
  export TO=$1
  replace 's/(License: )"[^"]*"/$1"$ENV{TO}"/' tools/release/packages.go
  grep -q image.licenses Dockerfile || replace 's/^(\s+)(org\.opencontainers\.image\.)(version=.*)/$1$2licenses="" \\\n$1$2$3/' Dockerfile
  replace 's/(image\.licenses=)"[^"]*"/$1"$ENV{TO}"/' Dockerfile
  replace 's/^(    (name|identifier): ).*/$1$ENV{TO}/ if /^  license:/ .. /^  description:/' docs/openapi.yaml
  {
    sed '/^License:/,$d' deployments/packages/copyright
    echo "License: $1"
    sed -E 's/^[[:space:]]*$/./; s/^/ /' LICENSE
    echo "Comment:"
    echo " The program contains modules of others under licences of their own:"
    echo " see /usr/share/doc/orderpost/NOTICES.gz."
  } >deployments/packages/copyright.new
  mv deployments/packages/copyright.new deployments/packages/copyright
  tell Licence "[$1](LICENSE)."
}

case ${1-} in
version) [ -n "${2-}" ] || fail "give VERSION=0.2.0"; version "$2" ;;
module) [ -n "${2-}" ] || fail "give MODULE=example.com/you/orderpost"; module "$2" ;;
licence) [ -n "${2-}" ] && [ -n "${3-}" ] || fail "give LICENCE=SPDX-IDENTIFIER TEXT=FILE"; licence "$2" "$3" ;;
*) fail "usage: $0 version|module|licence …" ;;
esac
