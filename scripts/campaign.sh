#!/usr/bin/env bash
# campaign.sh PACKAGE PATTERN ROUNDS SEED: run a crash campaign, which is a test with flags of its own.
# `go test` calls it a success when no test matches, so that is checked first.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$1 pattern=$2 rounds=$3 seed=$4

listed=$(go test -list "$pattern" "$package")
if ! grep -q '^Test' <<<"$listed"; then
	echo "campaign: no test in $package matches $pattern" >&2
	exit 1
fi
echo "campaign: $package $pattern, $rounds rounds, seed $seed" >&2
# shellcheck disable=SC2086 # TESTFLAGS holds several words on purpose
exec go test -count=1 -timeout 60m -v -run "$pattern" ${TESTFLAGS:-} "$package" \
	-args -campaign.n="$rounds" -campaign.seed="$seed"
