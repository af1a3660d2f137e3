#!/bin/bash
# Whether the harnesses catch what they are for: builds of this tree with one rule broken each.
#
#   tests/broken.sh [PATCH...]      all of tests/broken/*/*.patch if none is named
#
# A patch says in its line `Harness: NAME ARGUMENT...` which test binary must fail, and how it is
# called. What failed must pass without the patch, which is tried at the end. Exit status 1 if a broken
# build passed, a patch does not apply, or a whole build failed.
#
# It works in a copy of what is committed. BROKEN_TARGET is a build folder to use and to keep.
set -euo pipefail

here=$(cd -- "$(dirname -- "$0")/.." && pwd)
scratch=$(mktemp -d)
tree=$scratch/tree
export CARGO_TARGET_DIR=${BROKEN_TARGET:-$scratch/target}
export CARGO_PROFILE_DEV_DEBUG=0
outcome=0

# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    git -C "$here" worktree remove --force "$tree" >/dev/null 2>&1 || true
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf "| %s | %s | %s |\n" "$1" "$2" "$3"; }

bad() {
    outcome=1
    say "$@"
}

# harness_of PATCH: its name and arguments, in the array `harness`.
harness_of() {
    local line
    line=$(sed -n 's/^Harness: //p' "$1" | head -n 1)
    read -r -a harness <<<"$line"
    [ "${#harness[@]}" -gt 0 ]
}

# program NAME: builds the test binary and the driver, and sets `built`. `driver` are the unit tests of that crate.
program() {
    local said what=(--test "$1")
    [ "$1" != driver ] || what=(--package incloud-disk-driver --lib)
    said=$(cd "$tree" && cargo test --locked "${what[@]}" --no-run 2>&1) || return 1
    built=$(printf '%s\n' "$said" | sed -n 's/^ *Executable .* (\(.*\))$/\1/p' | tail -n 1)
    [ -n "$built" ]
}

# play: the harness's exit status; what it said is in the file `said`.
play() {
    (cd "$tree" && RUST_BACKTRACE=0 "$built" "${harness[@]:1}") >"$scratch/said" 2>&1 </dev/null
}

why() {
    { grep -E '^FAILED|^history [0-9]+, after|panicked at' -A 1 "$scratch/said" ||
        tail -n 3 "$scratch/said"; } |
        head -n 2 | tr '\n|' '  ' | cut -c 1-300
}

# controls: notes the call that must pass without the patch: what has failed with it. A harness
# that found it before its first trial is called for no more than that.
controls() {
    local trial
    trial=$(sed -n 's/^FAILED \([^ ]*\): .*/\1/p' "$scratch/said" | head -n 1)
    if [ "${harness[0]}" != steps ]; then
        printf '%s\n' "${harness[*]}"
    elif [ -n "$trial" ]; then
        printf 'steps --minutes 3 --only %s\n' "$trial"
    else
        printf '%s --minutes 0\n' "${harness[*]}"
    fi >>"$scratch/controls"
}

git -C "$here" worktree add --quiet --detach "$tree" HEAD
patches=("$@")
[ "${#patches[@]}" -gt 0 ] || patches=("$here"/tests/broken/*/*.patch)
: >"$scratch/controls"

printf '| broken | caught | how |\n| --- | --- | --- |\n'
for patch in "${patches[@]}"; do
    patch=$(realpath "$patch")
    name=$(basename "$patch" .patch)
    git -C "$tree" checkout --quiet --force HEAD -- .
    if ! harness_of "$patch"; then
        bad "$name" 'no' 'it names no harness'
    elif ! git -C "$tree" apply "$patch" 2>/dev/null; then
        bad "$name" 'no' 'the patch does not apply'
    elif ! program "${harness[0]}"; then
        bad "$name" 'no' 'the broken tree does not build'
    elif play; then
        bad "$name" 'NO' "${harness[*]} passed"
    else
        say "$name" 'yes' "$(why)"
        controls
    fi
done
git -C "$tree" checkout --quiet --force HEAD -- .
while read -r -a harness; do
    if ! program "${harness[0]}"; then
        bad "nothing: ${harness[*]}" 'no' 'this tree does not build'
    elif play; then
        say "nothing: ${harness[*]}" 'passed, as it must' ''
    else
        bad "nothing: ${harness[*]}" 'no' "it fails without a patch: $(why)"
    fi
done < <(sort -u "$scratch/controls")
exit "$outcome"
