#!/bin/bash
# Runs the fuzzer's targets: tests/fuzz/run.sh PROGRAM KEPT SECONDS [TARGET]...
#
# KEPT is a folder that stays: what was found to reach something new, what broke a target, and how many seconds of a
# processor each target has had with this very program. A run that was ended goes on where it was. With KEEP=1 nothing is
# played: the fewest of the inputs found that reach as much go into tests/fuzz/corpus, from which each run begins.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$1 kept=$2 seconds_each=$3
shift 3
known=$(FUZZ_TARGET=list "$program" 2>/dev/null)
targets=("$@")
((${#targets[@]})) || mapfile -t targets <<<"$known"
for target in "${targets[@]}"; do
    grep -qxF -- "$target" <<<"$known" || {
        printf 'no target %s; there are:\n%s\n' "$target" "$known" >&2
        exit 2
    }
done
version=$(sha256sum "$program" | cut -c 1-16)

# A text of some kilobytes reaches all that a long one does.
longest=4096
# An input that takes 10 s of a processor is one that a tenant can make a node wait with: the program itself counts
# those. libFuzzer's clock runs on while others have the processor; it ends what waits for something. And the MiB that an
# input may make the driver take.
limits=(-timeout=120 -report_slow_units=120 -rss_limit_mb=512 -malloc_limit_mb=256)

# unpack TARGET: what was kept in the source.
unpack() {
    mkdir -p "$kept/corpus/$1" "$kept/broken/$1"
    [[ ! -f $here/corpus/$1.tar.gz ]] || tar -xzf "$here/corpus/$1.tar.gz" -C "$kept/corpus/$1"
}

# keep TARGET
keep() {
    local fewest
    fewest=$(mktemp -d "$kept/fewest.XXXXXX")
    unpack "$1"
    FUZZ_TARGET=$1 "$program" -set_cover_merge=1 -use_counters=0 -use_cmp=0 "$fewest" "$kept/corpus/$1" \
        >"$kept/$1.log" 2>&1 </dev/null
    mkdir -p "$here/corpus"
    # The same inputs make the same file.
    find "$fewest" -type f -printf '%f\n' | sort |
        tar -C "$fewest" --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -cf - --files-from=- |
        gzip -n -9 >"$here/corpus/$1.tar.gz"
    printf '%-16s %s inputs\n' "$1" "$(find "$fewest" -type f | wc -l)"
    rm -rf "$fewest"
}

# try_again TARGET: what broke an older program, and this one no more, goes to the other inputs.
try_again() {
    local input
    for input in "$kept/broken/$1"/*; do
        [[ -f $input ]] || continue
        FUZZ_TARGET=$1 "$program" "${limits[@]}" -artifact_prefix="$kept/" "$input" >"$kept/$1.log" 2>&1 </dev/null || continue
        mv "$input" "$kept/corpus/$1/"
    done
}

# count_seconds TARGET: sets `had`, the seconds of a processor that this shell's children have had. `times` in a pipe or
# in $() is another shell's.
count_seconds() {
    times >"$kept/$1.times"
    had=$(awk 'NR == 2 { split($1 "m" $2, part, /[ms]+/); print int(60 * (part[1] + part[3]) + part[2] + part[4]) }' "$kept/$1.times")
}

# play TARGET: as long as it is still to be played; its line of the table into KEPT. Runs in a shell of its own.
play() {
    local target=$1 log=$kept/$1.log spent=0 played seconds status=0 before had words=()
    unpack "$target"
    try_again "$target"
    read -r played seconds 2>/dev/null <"$kept/$target.spent" || played=''
    [[ $played != "$version" ]] || spent=$seconds
    [[ ! -f $here/words/$target ]] || words=("-dict=$here/words/$target")
    # On a crowded machine a clock's seconds are fewer of a processor, and it is begun again.
    while ((seconds_each > spent && status == 0)); do
        count_seconds "$target"
        before=$had
        FUZZ_TARGET=$target RUST_BACKTRACE=1 "$program" "$kept/corpus/$target" "${words[@]}" \
            -max_total_time="$((seconds_each - spent))" -max_len="$longest" "${limits[@]}" -print_final_stats=1 \
            -artifact_prefix="$kept/broken/$target/" >"$log" 2>&1 </dev/null || status=$?
        # What broke it is played again at the next run, from its beginning.
        ((status)) && break
        count_seconds "$target"
        # Rounded up, so that each run is one step further.
        spent=$((spent + had - before + 1))
        echo "$version $spent" >"$kept/$target.spent"
    done
    local runs reached
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$target" "$spent" "${runs:--}" \
        "${reached:--}" "$(find "$kept/corpus/$target" -type f | wc -l)" \
        "$(find "$kept/broken/$target" -type f | wc -l)" >"$kept/$target.line"
    return "$status"
}

mkdir -p "$kept"
if [[ -n ${KEEP:-} ]]; then
    for target in "${targets[@]}"; do keep "$target"; done
    exit 0
fi
outcome=0
# As many at once as there are processors.
running=0
for target in "${targets[@]}"; do
    if ((running >= $(nproc))); then
        wait -n || outcome=1
        running=$((running - 1))
    fi
    printf '==> %s\n' "$target"
    play "$target" &
    running=$((running + 1))
done
while ((running)); do
    wait -n || outcome=1
    running=$((running - 1))
done

printf '\n%-16s %8s %12s %9s %7s %7s\n' target seconds runs reached corpus broken
for target in "${targets[@]}"; do
    IFS=$'\t' read -r name spent runs reached corpus broken <"$kept/$target.line"
    printf '%-16s %8s %12s %9s %7s %7s\n' "$name" "$spent" "$runs" "$reached" "$corpus" "$broken"
    if ((broken)); then
        outcome=1
        sed -n "/panicked at/{p;n;p;};/^SUMMARY/p;/^ALARM/p" "$kept/$target.log"
        find "$kept/broken/$target" -type f -printf '    %p\n'
    fi
done
exit "$outcome"
