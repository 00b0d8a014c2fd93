#!/usr/bin/env bash
# Runs `make install` into a temporary folder, and checks that it needs no cargo, that the program is
# small, that shells, man and systemd can read the installed files, and that `make uninstall` removes
# them.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# A host without cargo: the program that was built before is installed.
make -s install CARGO=/nonexistent/cargo DESTDIR="$place" prefix=/usr >/dev/null
usr=$place/usr
longpole=$usr/bin/longpole

fail() {
	echo "$*" >&2
	exit 1
}

size=$(stat -c %s "$longpole")
[ "$size" -le 20000000 ] || fail "$longpole has $size bytes, more than 20 MB"
if command -v readelf >/dev/null; then
	! readelf --sections --wide "$longpole" | grep -qE ' \.(debug_(info|line)|symtab) ' || fail "$longpole has debug information or symbols"
else
	echo "skipped: sections of the installed program (readelf is not installed)"
fi

# Without cargo and without a program that was built before, the message says what to do.
mkdir "$place/empty"
cp -r Makefile share include "$place/empty"
! said=$(make -s -C "$place/empty" install CARGO=/nonexistent/cargo DESTDIR="$place/none" 2>&1) || fail "make install succeeded without a program"
grep -qF 'run make as a user who has cargo' <<<"$said" || fail "make install does not say what to do: $said"

# Every verb in --help has a page, and there are no other pages.
verbs=$("$longpole" --help | sed -n '/^Options:/q; s/^  \([a-z-]*\)  .*/\1/p')
[ "$(wc -w <<<"$verbs")" -gt 20 ] || fail "--help names no verbs"
for verb in "" $verbs; do
	page=$usr/share/man/man1/longpole${verb:+-$verb}.1
	[ -s "$page" ] || fail "there is no $page"
	cmp "$page" <("$longpole" man $verb) || fail "$page is not what longpole man $verb says"
done
[ "$(find "$usr/share/man/man1" -type f | wc -l)" -eq $(($(wc -w <<<"$verbs") + 1)) ] || fail "there are pages of no verb"
if command -v groff >/dev/null; then
	for page in "$usr"/share/man/man1/*; do
		said=$(groff -man -Tutf8 -ww -z -rLL=200n "$page" 2>&1)
		[ -z "$said" ] || fail "$page: $said"
	done
	groff -man -Tutf8 -P-cbou -rLL=200n "$usr/share/man/man1/longpole-record.1" >"$place/record.txt"
	for text in '--capture-output' 'longpole record --for 10s' 'SEE ALSO' 'longpole-record(1)'; do
		grep -qF -- "$text" "$place/record.txt" || fail "the page of record does not say: $text"
	done
else
	echo "skipped: pages as groff reads them: there is no groff"
fi

# Shell completion knows the verbs and their options.
bash -n "$usr/share/bash-completion/completions/longpole"
offered() {
	bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _longpole longpole "${@: -1}" "${@: -2:1}"; printf "%s\n" "${COMPREPLY[@]}"' \
		bash "$usr/share/bash-completion/completions/longpole" "$@"
}
for verb in $verbs; do
	offered longpole "$verb" | grep -qxF -- "$verb" || fail "bash does not complete $verb"
done
offered longpole record --cap | grep -qxF -- --capture-output || fail "bash does not complete --capture-output"
offered longpole record --steady= >/dev/null
for shell in zsh fish; do
	file=$(find "$usr/share/$shell" -type f)
	[ -s "$file" ] || fail "there is nothing for $shell"
	if command -v "$shell" >/dev/null; then
		"$shell" -n "$file"
	fi
done

unit=$usr/lib/systemd/system/longpole.service
grep -q '^ExecStart=/usr/bin/longpole record ' "$unit" || fail "the unit starts another command"
# The command accepts the unit's options.
options=$(sed -n 's/^Environment="LONGPOLE_OPTIONS=\(.*\)"/\1/p' "$unit")
# shellcheck disable=SC2086
LONGPOLE_RUNTIME_DIR=$place/runtime "$longpole" record --output "$place" $options --for 1ms 2>"$place/said" || grep -q 'nothing was recorded' "$place/said" ||
	fail "$(cat "$place/said")"
if command -v systemd-analyze >/dev/null; then
	# The unit, with the path of the command that was just installed.
	sed "s|/usr/bin/longpole|$longpole|" "$unit" >"$place/longpole.service"
	said=$(systemd-analyze verify --man=no "$place/longpole.service" 2>&1) || fail "$said"
	[ -z "$(grep -F longpole.service <<<"$said" || true)" ] || fail "$said"
else
	echo "skipped: the unit as systemd reads it: there is no systemd-analyze"
fi

# Uninstalling removes every installed file and leaves the files of others.
touch "$usr/include/longpole/mine.h" "$usr/share/man/man1/other.1"
make -s uninstall DESTDIR="$place" prefix=/usr
left=$(cd "$usr" && find . -type f | sort | tr '\n' ' ')
[ "$left" = "./include/longpole/mine.h ./share/man/man1/other.1 " ] || fail "after make uninstall there is: $left"
[ ! -d "$usr/share/cmake/longpole" ] || fail "make uninstall leaves an empty folder share/cmake/longpole"
