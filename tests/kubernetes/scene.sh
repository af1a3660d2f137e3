# What a scenario is told with: the table of what was done and seen, volumes, pods, the driver's log.
#
# `me` is the row that is played; what it makes has that name.
# shellcheck shell=bash disable=SC2154 # what scene.sh, cluster.sh and play.sh set

# Of each row: milliseconds, and what took them.
readonly times_taken=/run/times
readonly driver_config=/etc/incloud-disk/config.toml

# --- telling --------------------------------------------------------------------------------------

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# row WORD DID SAW
row() {
    local took=$(($(now_ms) - ${row_began:-$(now_ms)}))
    printf '  %-62s %4d.%d s  %-5s  %s\n' "$2" $((took / 1000)) $((took / 100 % 10)) "$1" "${3-}"
    printf '%d|%s\n' "$took" "$2" >>"$times_taken"
    row_began=$(now_ms)
}

# did WHAT [SAW]: a step that needs no judgement.
did() { row '' "$@"; }
# seen WHAT SAW: a check that held.
seen() { row ok "$@"; }

# fail WHY: ends this scenario.
fail() {
    row WRONG "$1"
    exit 1
}

# expect WHAT SECONDS COMMAND...: the command must be true within that time; `saw` is shown. The check
# that a control is about must not be, and that ends the control.
expect() {
    local what=$1 seconds=$2
    shift 2
    saw=''
    if [[ -n $decisive && $what == "$decisive" ]]; then
        must_fail "$what" "$((seconds < patience ? seconds : patience))" "$@"
    fi
    until_true "$seconds" "$@" || {
        row WRONG "$what" "${saw:-not within $seconds s}"
        exit 1
    }
    seen "$what" "$saw"
}

# --- the driver's log -----------------------------------------------------------------------------

# Where the node's logs are that is looked at.
node_logs=/var/log

driver_log() { cat "$node_logs"/incloud-volume/*.jsonl 2>/dev/null || true; }

# mark: from here on `calls` looks.
mark() { marked=$(driver_log | wc -l); }

# calls: one line for each call that ended since the mark: time, word, object, answer, reason.
calls() {
    driver_log | tail -n +$((marked + 1)) |
        sed -nE 's/^\{"timestamp":"[^T]*T([0-9:.]{12})[^"]*","level":"[A-Z]+","fields":\{"message":"end: ([A-Za-z ]+)","object":"([^"]*)","duration_ms":([0-9]+)(,"kind":"([a-z-]+)")?.*"span":\{"id":"[^"]*","op":"([a-z]+)".*$/\1 \7 \2 \4ms \6 \3/p'
}

# times WORD ANSWER: how often.
times() { calls | awk -v word="$1" -v answer="$2" '$2 == word && $3 == answer' | wc -l; }

# called WORD ANSWER [AT LEAST]
called() {
    local count
    count=$(times "$1" "$2")
    saw="$count times"
    ((count >= ${3:-1}))
}

show_calls() {
    show_calls_here 'what was called'
    [[ ! -d $second_logs ]] || on_second show_calls_here 'and on node-b'
}

show_calls_here() {
    printf '  %s:\n' "$1"
    calls | awk '
        { key = $2 " " $3 " " $5; line = $0 }
        key == last { count++; next }
        { if (count) printf "      ... and %d more the same\n", count; count = 0; print "    " line; last = key }
        END { if (count) printf "      ... and %d more the same\n", count }'
}

# --- the driver's configuration ---------------------------------------------------------------------

# configure GUARD HEAL
configure() {
    awk -v guard="$1" -v heal="$2" '
        /^\[/ { section = $0 }
        section == "[guard]" && /^mode/ { print "mode = \"" guard "\""; next }
        section == "[heal]" && /^mode/ { print "mode = \"" heal "\""; next }
        { print }' "$driver_config" >"$driver_config.new"
    chmod 600 "$driver_config.new"
    mv "$driver_config.new" "$driver_config"
}

disk() { /opt/release/disk "$@"; }
