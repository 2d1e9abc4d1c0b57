#!/usr/bin/env bash
# lint.sh: every static check, each to its end even when one before it failed. Exit 1 if any failed.
# Needs go and git; the tools come as modules (tools.sh), nothing is installed.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
failed=()

check() { # NAME COMMAND...
	local name=$1 start=$SECONDS
	shift
	if "$@"; then
		echo "lint: $name ok, $((SECONDS - start)) s"
	else
		echo "lint: $name FAILED, $((SECONDS - start)) s" >&2
		failed+=("$name")
	fi
}

formatted() {
	local files
	files=$(git ls-files -co --exclude-standard -z -- '*.go' | xargs -0 "$(go env GOROOT)/bin/gofmt" -l) || return 1
	[[ -z $files ]] || { echo "$files" && return 1; }
}

run_tool() { CGO_ENABLED=0 go run "$@"; }

# Code behind build tags is code too: each analyser looks twice.
vet() { go vet ./... && go vet -tags invariants,planted ./...; }
static() { run_tool "$STATICCHECK" ./... && run_tool "$STATICCHECK" -tags invariants,planted ./...; }

# govulncheck ends with 3 when it found something, with 1 when it could not look (the public database out of reach).
vulnerabilities() {
	local code=0
	finds_planted || return 1
	timeout 120 go run "$GOVULNCHECK" ./... >.tools/govulncheck.log 2>&1 || code=$?
	# `go run` hides the exit status of the program and prints it instead.
	if ((code == 0)) || grep -q '^exit status 3' .tools/govulncheck.log; then
		cat .tools/govulncheck.log
		return "$code"
	fi
	echo "lint: no public vulnerability database here, using $VULNDB"
	local db=.tools/vulndb-${VULNDB##*-}
	[[ -d $db ]] || build_database "$db" || return 1
	run_tool "$GOVULNCHECK" -db "file://$PWD/$db" ./...
}

build_database() { # DIR
	local module
	module=$(go mod download -json "$VULNDB" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	go run ./scripts/vulndb "$module/data/osv" "$1"
}

# A check that cannot find anything is worth nothing: it must see an entry about fmt.Println in a program that calls it.
finds_planted() {
	go run ./scripts/vulndb scripts/vulndb/testdata/osv .tools/vulndb-planted >/dev/null || return 1
	if run_tool "$GOVULNCHECK" -db "file://$PWD/.tools/vulndb-planted" ./scripts/vulndb >.tools/planted.log 2>&1; then
		echo "lint: govulncheck did not find the planted entry" >&2
		return 1
	fi
	grep -q GO-0000-0001 .tools/planted.log || { cat .tools/planted.log >&2 && return 1; }
}

mkdir -p .tools
check gofmt formatted
check vet vet
check staticcheck static
check govulncheck vulnerabilities
check guards go test -run '^Test(Arrows|Purity)' .

if ((${#failed[@]})); then
	echo "lint: failed: ${failed[*]}" >&2
	exit 1
fi
