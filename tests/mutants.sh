#!/usr/bin/env bash
# Runs scripts/mutants with a program in place of cargo-mutants, and checks that the sample has the
# requested size, that a seed repeats it, and that a missing cargo-mutants is reported.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
	echo "$*" >&2
	exit 1
}
cat >"$folder/cargo" <<'PROGRAM'
#!/usr/bin/env bash
[ -z "${NO_MUTANTS:-}" ] || exit 101
case " $* " in
*" --version "*) echo "cargo-mutants 1" ;;
*" --list "*) seq 1005 ;;
*) echo "called with: $*" ;;
esac
PROGRAM
chmod +x "$folder/cargo"
export PATH=$folder:$PATH

first=$(scripts/mutants 50 7 one two)
[[ $first =~ "called with: mutants --package one --package two --sharding round-robin --shard "([0-9]+)/21$ ]] || fail "the call is not right: $first"
[ "${BASH_REMATCH[1]}" -lt 21 ] || fail "there is no such shard: $first"
[ "$first" = "$(scripts/mutants 50 7 one two)" ] || fail "the seed 7 does not repeat the sample"
different=$(for seed in {1..20}; do scripts/mutants 50 "$seed" one | tail -n 1; done | sort -u | wc -l)
[ "$different" -gt 5 ] || fail "20 seeds give only $different samples"
grep -q 'SEED=' <<<"$(scripts/mutants 5000 random one)" || fail "a random sample does not print its seed"

! said=$(NO_MUTANTS=1 scripts/mutants 50 7 one 2>&1) || fail "success without cargo-mutants"
[ "$said" = "mutants: cargo-mutants is not installed; install it with: cargo install --locked cargo-mutants" ] || fail "$said"
status=0
scripts/mutants 0 7 one 2>/dev/null || status=$?
[ "$status" -eq 2 ] || fail "a sample of 0 ends with $status instead of 2"
