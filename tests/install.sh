#!/usr/bin/env bash
# Runs `make install` into a temporary folder, and checks that shells, man and systemd can read the
# installed files.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# `-o all`: the program is built already, and cargo would build it again with the features of the
# default members only.
make -s -o all install DESTDIR="$place" prefix=/usr >/dev/null
usr=$place/usr
longpole=$usr/bin/longpole

fail() {
	echo "$*" >&2
	exit 1
}

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
LONGPOLE_RUNTIME_DIR=$place/runtime "$longpole" record --output "$place" $options --for 1ms 2>"$place/said" || grep -q 'captured nothing' "$place/said" ||
	fail "$(cat "$place/said")"
if command -v systemd-analyze >/dev/null; then
	# The unit, with the path of the command that was just installed.
	sed "s|/usr/bin/longpole|$longpole|" "$unit" >"$place/longpole.service"
	said=$(systemd-analyze verify --man=no "$place/longpole.service" 2>&1) || fail "$said"
	[ -z "$(grep -F longpole.service <<<"$said" || true)" ] || fail "$said"
else
	echo "skipped: the unit as systemd reads it: there is no systemd-analyze"
fi
