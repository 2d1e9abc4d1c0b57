#!/usr/bin/env bash
# syscalls.sh: what the broker asks of the kernel under load. For each load it runs `slipring bench` against a broker of its
# own, counts system calls for SECONDS_EACH (3) with `strace -f -c` and prints the table, then counts those of the shard's
# thread alone. It fails when the shard's thread makes another call than io_uring_enter on the hot path, or enters the ring
# more than 1.05 times a turn by the broker's own counters (SIGUSR1). The Go runtime asks a thread that runs for 10 ms, or
# whose stack it wants to scan, to yield, by a signal, and wakes other threads with futexes: these come by time and not by
# record, are shown, and are bounded by RUNTIME_MAX (2000) a second. Anything else may happen once a second (a connection, a
# file).
# Needs bin/slipringd and bin/slipring (make build), strace 5 or newer, and leave to trace: root, or sysctl
# kernel.yama.ptrace_scope 0.
# Usage: scripts/syscalls.sh ["BENCH ARGUMENTS"...], for example: scripts/syscalls.sh "durable --connections 64"
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-3}
runtime_max=${RUNTIME_MAX:-2000}
loads=("$@")
((${#loads[@]})) || loads=("durable --connections 16 --partitions 4" "stream --connections 2 --partitions 4" "wire")

for need in bin/slipringd bin/slipring; do
	[[ -x $need ]] || { echo "syscalls: $need is missing: make build" >&2 && exit 2; }
done
strace=$(command -v strace) || { echo "syscalls: strace is missing" >&2 && exit 2; }

work=$(mktemp -d)
broker='' bench=''
cleanup() {
	[[ -z $bench ]] || kill "$bench" 2>/dev/null || true
	[[ -z $broker ]] || { kill "$broker" && wait "$broker"; } 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

# Little memory, so that the pool soon has all blocks that it will ever map.
printf 'memory.limit: 256MiB\ndisk.journal: 64MiB\n' >"$work/config"
bin/slipringd --listen 127.0.0.1:0 --data "$work/data" --config "$work/config" >"$work/out" 2>"$work/log" &
broker=$!
for _ in {1..200}; do
	[[ -s $work/out ]] && break
	kill -0 "$broker" 2>/dev/null || { cat "$work/log" >&2 && exit 1; }
	sleep 0.05
done
addr=$(sed -n 's/^listening //p' "$work/out")
shard=$(grep -l '^shard-00$' /proc/"$broker"/task/*/comm | cut -d/ -f5)
[[ -n $addr && -n $shard ]] || { echo "syscalls: no broker, or no thread named shard-00" >&2 && exit 1; }

asked=0
counters() { # sets turns and enters
	local line
	asked=$((asked + 1))
	kill -USR1 "$broker"
	for _ in {1..100}; do
		line=$(grep 'event=counters' "$work/log" | sed -n "${asked}p")
		[[ -n $line ]] && break
		sleep 0.02
	done
	[[ $line =~ turns=([0-9]+)\ enters=([0-9]+) ]] || { echo "syscalls: no counters in the log" >&2 && exit 1; }
	turns=${BASH_REMATCH[1]} enters=${BASH_REMATCH[2]}
}

count() { # FILE ARGUMENTS...: strace for a while
	local file=$1
	shift
	timeout --signal=INT "$seconds" "$strace" -c -o "$file" "$@" 2>"$work/strace" || true
	[[ -s $file ]] || { echo "syscalls: strace counted nothing: $(tail -1 "$work/strace")" >&2 && exit 1; }
}

# Warm: blocks are mapped and registered once.
bin/slipring --addr "$addr" bench stream --partitions 4 --warmup 0s --duration 3s >/dev/null

failed=0
for load in "${loads[@]}"; do
	echo "=== slipring bench $load"
	# shellcheck disable=SC2086 # a load is several words
	bin/slipring --addr "$addr" bench $load --warmup 0s --duration "$((2 * seconds + 4))s" >"$work/bench" 2>&1 &
	bench=$!
	sleep 1 # the load begins, and files that it needs are made
	counters && turns0=$turns enters0=$enters
	count "$work/all" -f -p "$broker"
	counters
	cat "$work/all"
	count "$work/shard" -p "$shard"
	cat "$work/shard"
	kill -0 "$bench" 2>/dev/null || { echo "FAIL: the bench ended early: $(cat "$work/bench")" && failed=1; }
	kill "$bench" 2>/dev/null && wait "$bench" 2>/dev/null || true
	bench=''
	# Rows are "% seconds usecs calls [errors] name".
	awk -v turns=$((turns - turns0)) -v enters=$((enters - enters0)) -v s="$seconds" -v most="$runtime_max" '
		$NF == "total" || $1 !~ /^[0-9]/ { next }
		$NF == "io_uring_enter" { ring = $4; next }
		$NF ~ /^(futex|rt_sigreturn|sched_yield|getpid|tgkill|nanosleep|epoll_pwait|madvise|restart_syscall)$/ { go += $4; next }
		{ others += $4; names = names " " $NF "=" $4 }
		END {
			printf "shard thread: %d io_uring_enter, %d of the Go runtime, %d others%s; %d enters in %d turns, %.3f a turn\n",
				ring, go, others, names, enters, turns, enters / turns
			if (ring < 100) { print "FAIL: hardly any load"; bad = 1 }
			if (enters > 1.05 * turns) { print "FAIL: more than 1.05 enters a turn"; bad = 1 }
			if (go > most * s) { print "FAIL: the Go runtime makes more than " most " calls a second on the thread"; bad = 1 }
			if (others > s) { print "FAIL: another system call on the hot path"; bad = 1 }
			exit bad
		}' "$work/shard" || failed=1
done
exit $failed
