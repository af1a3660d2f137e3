# Controls: the same scenario with the part of the driver switched off that it is about. It must fail,
# at the check that counts and at no other; a test that cannot fail there tests nothing.
#
# The control of play_NAME is a function control_NAME: it switches the part off, by the configuration
# or by a script that stands before the driver, and names the check in `decisive`.
# shellcheck shell=bash disable=SC2034,SC2154 # what scene.sh, cluster.sh and play.sh set and use

# The check that must fail; without one it is no control.
decisive=''
# How many seconds it is waited for what must not come. What it takes in the scenario is far less.
patience=10
readonly failed_as_it_must=42

# must_fail WHAT SECONDS COMMAND...
must_fail() {
    local what=$1 seconds=$2
    shift 2
    if until_true "$seconds" "$@"; then
        row WRONG "$what" "it must fail, and does not: ${saw:-true}"
        exit 1
    fi
    row fails "$what" "${saw:-not within $seconds s}"
    exit "$failed_as_it_must"
}

# --- before the driver --------------------------------------------------------------------------------

# stand_before TEXT: a script stands in the driver's place, which answers some calls and has the driver
# answer all others. The driver itself stays as it is; kubelet does not see names that begin with a dot.
stand_before() {
    local folder=$plugins/incloud~disk
    ln "$folder/disk" "$folder/.disk.real"
    # shellcheck disable=SC2016 # for that shell
    printf '#!/bin/sh\nreal=%s/.disk.real\n%s\nexec "$real" "$@"\n' "'$folder'" "$1" >"$folder/.disk.before"
    chmod 755 "$folder/.disk.before"
    mv "$folder/.disk.before" "$folder/disk"
}

# only_says WORD: the call is answered, and nothing done.
only_says() {
    stand_before "[ \"\$1\" != $1 ] || { echo '{\"status\":\"Success\"}'; exit; }"
}

# step_aside: the driver is where it was.
step_aside() {
    local folder=$plugins/incloud~disk
    [[ ! -e $folder/.disk.real ]] || mv "$folder/.disk.real" "$folder/disk"
}

# --- after a control ----------------------------------------------------------------------------------

# put_back: the whole driver again, and everything that the scenario made put away with it.
put_back() {
    decisive=''
    step_aside
    configure enforce auto
    thaw_etcd
    runs kubelet || start_kubelet
    if declare -F "put_back_${scenario//-/_}" >/dev/null; then
        "put_back_${scenario//-/_}"
    fi
    cmp -s "$plugins/incloud~disk/disk" /opt/release/disk || fail 'the driver is not the one of the release'
    if declare -F "put_away_${scenario//-/_}" >/dev/null; then
        "put_away_${scenario//-/_}"
    else
        put_away
    fi
}

# sweep: what was written into the pod's folder while nothing was mounted there; kubelet deletes no
# folder with something in it, and says of the pod that it ends, until a person does that.
sweep() {
    local folder
    look || fail 'the pod is not there'
    folder=$(pod_folder)
    delete_set
    expect 'its container has ended' 30 not runs_as "$pid"
    if [[ -e $folder/count ]] && ! mountpoint -q "$folder"; then
        rm "$folder/count"
    fi
}
