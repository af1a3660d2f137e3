#!/bin/bash
# Inside the node: starts the cluster and plays the scenarios: play.sh [SCENARIO...]
set -uo pipefail
shopt -s nullglob
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=cluster.sh
. "$here/cluster.sh"
# shellcheck source-path=SCRIPTDIR source=scene.sh
. "$here/scene.sh"
for file in "$here"/scenarios/*.sh; do
    # shellcheck disable=SC1090 # each has functions play_NAME and a line in `scenarios`
    . "$file"
done

# In this order: the function is play_NAME with _ for -, then what it is about.
readonly scenarios=(
    'incident|etcd stalls, kubelet restarts: the guard refuses, the pod never notices'
    'incident-unguarded|the same without the guard: torn down, and healed when it is back'
    'incident-lost|control, the same without guard and heal: the pod loses its disk'
    'incident-care|after a refusal: what kubelet does for the pod, and what ends that'
    'first-life|a pod comes up, writes, is deleted'
    'kubelet-restart|kubelet restarts while the API is healthy'
    'recreate|the pod is deleted and made again on the same node, at once'
    'orphan|the pod is deleted by force and made again while kubelet is down'
    'resize|the claim grows while the pod writes'
    'controller|the controller-manager attaches and detaches'
    'controller-incident|the incident with the controller-manager attaching'
    'second-node|a pod of another node wants the same volume'
)

passed=0 failed=0 skipped=0 lines=()

# play NAME ABOUT
play() {
    local name=$1 status=0 began=$SECONDS word
    printf '\n--- %s: %s\n' "$name" "$2"
    (
        row_began=$(now_ms)
        mark
        trap show_calls EXIT
        configure enforce auto
        "play_${name//-/_}"
    )
    status=$?
    if ((status == 0)); then
        word=passed passed=$((passed + 1))
    else
        word=FAILED failed=$((failed + 1))
        keep_logs "$name"
        clear_away
    fi
    lines+=("$(printf '%-8s %-22s %4d s  %s' "$word" "$name" $((SECONDS - began)) "$2")")
    printf '  %s  %d s\n' "$word" $((SECONDS - began))
}

keep_logs() {
    local part
    mkdir -p "/opt/kept/$1"
    cp -r /var/log/. "/opt/kept/$1/"
    cp /proc/self/mountinfo "/opt/kept/$1/mountinfo"
    kubectl get pods,pv,pvc,nodes,events -o wide >"/opt/kept/$1/objects" 2>&1 || true
    printf '  the logs are in %s/%s:\n' "$KEPT_AS" "$1"
    for part in "/opt/kept/$1"/parts/*.log "/opt/kept/$1"/incloud-volume/*.log; do
        printf '    %s\n' "${part#/opt/kept/"$1"/}"
    done
}

# wanted NAME WORD...: without words all are.
wanted() {
    local name=$1 word
    shift
    (($#)) || return 0
    for word in "$@"; do
        [[ $word != "$name" ]] || return 0
    done
    return 1
}

for word in "$@"; do
    known=
    for scenario in "${scenarios[@]}"; do
        [[ $word != "${scenario%%|*}" ]] || known=yes
    done
    if [[ -z $known ]]; then
        printf 'kubernetes: there is no scenario %s; there are:' "$word" >&2
        printf ' %s' "${scenarios[@]%%|*}" >&2
        printf '\n\n0 passed, 1 failed, 0 skipped\n'
        exit 2
    fi
done

printf -- '--- the cluster\n'
row_began=$(now_ms)
if ! (start_cluster); then
    keep_logs cluster
    printf '\n0 passed, 1 failed, 0 skipped\n'
    exit 1
fi
did "$(kubelet --version) is up on one node"
for scenario in "${scenarios[@]}"; do
    name=${scenario%%|*}
    wanted "$name" "$@" || continue
    play "$name" "${scenario#*|}"
done

printf '\n'
printf '%s\n' "${lines[@]}"
printf '\nall of it took %d s\n\n%d passed, %d failed, %d skipped\n' "$SECONDS" "$passed" "$failed" "$skipped"
((failed == 0))
