#!/usr/bin/env bash
# fuzz.sh: run every fuzz target of every package in turn, TIME seconds for all of them together, one line each.
# Building the instrumented test binaries comes on top. A failing input stays in testdata/fuzz of its package: commit it
# with the fix, from then on every `make test` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
budget=${TIME:-60}
budget=${budget%s}

# `go test -list` prints the targets of a package and then "ok PACKAGE TIME".
targets=$(go test -list '^Fuzz' ./... | awk '/^Fuzz/{name[n++]=$1} /^ok/{for(i=0;i<n;i++)print $2, name[i]; n=0}')
if [[ -z $targets ]]; then
	echo "fuzz: no fuzz target in any package" >&2
	exit 1
fi
count=$(wc -l <<<"$targets")
each=$((budget / count))
((each >= 1)) || each=1
echo "fuzz: $count targets, $each s each" >&2

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
while read -r package name; do
	result=ok
	# shellcheck disable=SC2086 # TESTFLAGS holds several words on purpose
	go test -run '^$' -fuzz "^$name\$" -fuzztime "${each}s" -fuzzminimizetime 1s ${TESTFLAGS:-} "$package" </dev/null >"$log" 2>&1 || result=FAILED
	case " ${TESTFLAGS:-} " in
	*" -json "*) cat "$log" ;;
	*) [[ $result == ok ]] || cat "$log" ;;
	esac
	execs=$(grep -o 'execs: [0-9]*' "$log" | tail -1 || true)
	echo "fuzz: $result ${package#github.com/slipringmq/} $name, ${execs:-execs: 0}" >&2
	[[ $result == ok ]] || failed=1
done <<<"$targets"
exit $failed
