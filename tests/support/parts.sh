# What a suite is made of, unpacked below its cache: for the bash scripts that get the parts of a suite.
#
# The script sets `cache`, and has sourced debian.sh.
# shellcheck shell=bash disable=SC2154 # `cache` and `state` are set there

say() { printf '    %s\n' "$*"; }

# done_after WHAT BEGAN
done_after() { say "$1: $((SECONDS - $2)) s"; }
die() {
    printf 'parts.sh: %s\n' "$*" >&2
    exit 1
}

# logged NAME COMMAND...: what it says goes into a log, and is shown only if it fails. One that takes long
# is told of every 15 seconds, with its last line.
logged() {
    local log=$cache/log/$1 status=0 teller
    shift
    : >"$log"
    tell_of "$log" &
    teller=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$teller" 2>/dev/null || true
    wait "$teller" 2>/dev/null || true
    ((status == 0)) || {
        tail -n 20 "$log" >&2
        die "this failed: $*; all that it said is in $log"
    }
}

# tell_of LOG
tell_of() {
    local began=$SECONDS
    # The lock is not its own.
    exec 8>&-
    trap 'kill "$sleeper" 2>/dev/null; exit' TERM
    while :; do
        sleep 15 &
        sleeper=$!
        wait "$sleeper"
        # Who was killed does not end it.
        kill -0 $$ 2>/dev/null || exit
        say "  $((SECONDS - began)) s, $(wc -l <"$1") lines; the last: $(tail -n 1 "$1" | cut -c 1-80)"
    done
}

# unpack_once NAME PACKAGE...: the packages and all that they depend on, as a root in CACHE/NAME.
unpack_once() {
    local name=$1 package packages began=$SECONDS
    shift
    [[ ! -f $cache/$name.done || $(<"$cache/$name.done") != "$*" ]] || return 0
    say "downloading: $*"
    rm -rf "${cache:?}/$name" "$cache/$name.done" "$state/archives"
    mkdir -p "$state/archives/partial"
    logged "packages-$name" apt_here -y --no-install-recommends --download-only install "$@"
    packages=("$state/archives"/*.deb)
    say "unpacking ${#packages[@]} packages ($(du -shc "${packages[@]}" | tail -n 1 | cut -f 1)) into $cache/$name"
    make_root "$cache/$name"
    for package in "${packages[@]}"; do
        unpack "$package" "$cache/$name"
    done
    rm -rf "$state/archives" "$cache/$name"/usr/share/{doc,man,locale,info,lintian}
    printf '%s\n' "$*" >"$cache/$name.done"
    done_after 'done' "$began"
}
