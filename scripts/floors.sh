#!/usr/bin/env bash
# floors.sh: what the broker costs above the least that the machine asks for. Two lines, each from PAIRS (5) interleaved
# pairs of SECONDS_EACH (3), medians, with both raw sides:
#   durable  p50 of one lone producer (64 B, acks durable) against a 4 KiB durable write (diskfloor) plus a loopback round
#            trip (echo, roundtrip): at most 1.3
#   wire     one publisher to one push subscriber, 64 B in batches, acks none, storage none, against a bare copy loop (relay)
#            between the same two ends with the same bytes: at least 0.8
# With --check it exits 1 on a miss. With --markdown it prints the section for BENCHMARKS.md. Needs make build; the data lies
# in the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${PAIRS:-5} seconds=${SECONDS_EACH:-3}
check='' markdown=''
for arg in "$@"; do
	case $arg in
	--check) check=1 ;;
	--markdown) markdown=1 ;;
	*) echo "floors: unknown argument $arg" >&2 && exit 2 ;;
	esac
done
for need in slipringd slipring relay echo roundtrip diskfloor; do
	[[ -x bin/$need ]] || { echo "floors: bin/$need is missing: make build" >&2 && exit 2; }
done
mkdir -p .demo
work=$(mktemp -d .demo/floors.XXXXXX)
started=()
cleanup() {
	for p in "${started[@]}"; do { kill "$p" && wait "$p"; } 2>/dev/null || true; done
	rm -rf "$work"
	rmdir .demo 2>/dev/null || true
}
trap cleanup EXIT

serve() { # NAME COMMAND...: starts it and sets address to what it says that it listens on
	"${@:2}" >"$work/$1.out" 2>"$work/$1.log" &
	started+=($!)
	for _ in {1..500}; do
		[[ -s $work/$1.out ]] && break
		sleep 0.02
	done
	address=$(sed -n 's/^listening //p' "$work/$1.out")
	[[ -n $address ]] || { cat "$work/$1.log" >&2 && exit 1; }
}
serve broker bin/slipringd --listen 127.0.0.1:0 --data "$work/data" && broker=$address
serve echo bin/echo && echo=$address
serve relay bin/relay --pairs 0 && relay=${address// /,}

micros() { sed -n 's/.*p50=\([0-9.]*\)\(µs\|ms\).*/\1 \2/p' | awk '{ printf "%.1f", $2 == "ms" ? $1 * 1000 : $1 }'; }
median() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
spread() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { printf "%s to %s", v[1], v[NR] }'; }

lone=() floor=() lone_ratio=()
wire=() copy=() wire_ratio=()
for _ in $(seq "$pairs"); do
	write=$(bin/diskfloor --file "$work/floor.tmp" --count 2000 | micros)
	trip=$(bin/roundtrip --addr "$echo" --size 256 --count 5000 | micros)
	ours=$(bin/slipring --addr "$broker" bench durable --raw --duration "${seconds}s" --warmup 1s -o json | sed -n 's/.*"p50": *\([0-9.]*\).*/\1/p')
	sum=$(awk -v a="$write" -v b="$trip" 'BEGIN { print a + b }')
	lone+=("$ours") floor+=("$sum") lone_ratio+=("$(awk -v a="$ours" -v b="$sum" 'BEGIN { printf "%.2f", a / b }')")
	ours=$(bin/slipring --addr "$broker" bench wire --duration "${seconds}s" --warmup 1s -o json | sed -n 's/.*"wire_mib_per_second": *\([0-9.]*\).*/\1/p')
	bare=$(bin/slipring bench wire --floor "$relay" --duration "${seconds}s" --warmup 1s -o json | sed -n 's/.*"wire_mib_per_second": *\([0-9.]*\).*/\1/p')
	wire+=("$ours") copy+=("$bare") wire_ratio+=("$(awk -v a="$ours" -v b="$bare" 'BEGIN { printf "%.2f", a / b }')")
done

host="$(nproc) CPUs ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r), $(stat -f -c %T .), commit $(git describe --always --dirty)"
a=$(median "${lone_ratio[@]}") b=$(median "${wire_ratio[@]}")
if [[ -n $markdown ]]; then
	printf '%s; `scripts/floors.sh --markdown`, %s pairs of %s s.\n\n' "$host" "$pairs" "$seconds"
	printf '| | broker | floor | ratio of the pairs | bar |\n|---|---|---|---|---|\n'
	printf '| one lone durable record of 64 B, p50 | %s µs (%s) | %s µs (%s) | %s (%s) | ≤ 1.3 |\n' "$(median "${lone[@]}")" "$(spread "${lone[@]}")" "$(median "${floor[@]}")" "$(spread "${floor[@]}")" "$a" "$(spread "${lone_ratio[@]}")"
	printf '| 1 publisher → 1 subscriber, 64 B in batches of 1,000, storage none | %s MiB/s (%s) | %s MiB/s (%s) | %s (%s) | ≥ 0.8 |\n' "$(median "${wire[@]}")" "$(spread "${wire[@]}")" "$(median "${copy[@]}")" "$(spread "${copy[@]}")" "$b" "$(spread "${wire_ratio[@]}")"
else
	echo "$host"
	echo "durable p50: broker ${lone[*]} µs, floor ${floor[*]} µs, ratios ${lone_ratio[*]}, median $a (at most 1.3)"
	echo "wire: broker ${wire[*]} MiB/s, relay ${copy[*]} MiB/s, ratios ${wire_ratio[*]}, median $b (at least 0.8)"
fi
[[ -z $check ]] || awk -v a="$a" -v b="$b" 'BEGIN { exit !(a <= 1.3 && b >= 0.8) }'
