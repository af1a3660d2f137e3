#!/bin/bash
# Inside the node: starts the cluster and plays the scenarios: play.sh [SCENARIO...]
set -uo pipefail
shopt -s nullglob
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=cluster.sh
. "$here/cluster.sh"
# shellcheck source-path=SCRIPTDIR source=scene.sh
. "$here/scene.sh"
# shellcheck source-path=SCRIPTDIR source=set.sh
. "$here/set.sh"
# shellcheck source-path=SCRIPTDIR source=several.sh
. "$here/several.sh"
# shellcheck source-path=SCRIPTDIR source=control.sh
. "$here/control.sh"
for file in "$here"/scenarios/*.sh; do
    # shellcheck disable=SC1090 # each has functions play_NAME and a line in `scenarios`
    . "$file"
done

# In this order: name, who attaches, what it is about. A scenario is played by play_NAME with _ for -;
# NAME-control plays the same after control_NAME.
readonly scenarios=(
    'incident|kubelet|etcd stalls, kubelet restarts: it is let go of the folder, the pod never notices'
    'incident-control|kubelet|without guard and heal: the pod loses its disk'
    'incident-unguarded|kubelet|the same without the guard: torn down, and healed when it is back'
    'incident-lost|kubelet|its control, without guard and heal: kubelet says all is well, the disk is lost'
    'incident-care|kubelet|afterwards a container that crashes is started again, without a restart of kubelet'
    'incident-care-control|kubelet|the unmount is refused: kubelet waits for a mount that is there'
    'incident-crash|kubelet|the container crashes in the outage'
    'incident-crash-control|kubelet|without guard and heal: what the container wrote is lost'
    'incident-restarts|kubelet|kubelet is restarted three times in the outage'
    'incident-restarts-control|kubelet|without guard and heal: the pod loses its disk'
    'incident-kinds|kubelet|by subPath, read-only, with each propagation, and with fsGroup'
    'incident-kinds-control|kubelet|without guard and heal: the pod loses its disk'
    'incident-ten|kubelet|ten pods of one node: some claims can be read and some cannot, then none'
    'incident-ten-control|kubelet|without guard and heal: pods lose their disks'
    'incident-starting|kubelet|a container is being started in the moment of the unmount'
    'incident-starting-control|kubelet|without guard and heal: it starts without its disk'
    'outage|kubelet|etcd frozen, one restart and three: pods of six kinds, and what comes after'
    'outage-control|kubelet|the unmount is refused: kubelet waits for a mount that is there'
    'outage-75|kubelet|the same for 75 s'
    'outage-75-control|kubelet|the unmount is refused: kubelet waits for a mount that is there'
    'outage-300|kubelet|the same for five minutes'
    'outage-300-control|kubelet|the unmount is refused: kubelet waits for a mount that is there'
    'incident-forgotten|kubelet|restarted twice, and the pod deleted: only the timer asks for the end'
    'incident-forgotten-control|kubelet|without the timer the volume stays'
    'controller-incident-forgotten|controller-manager|the same with the controller-manager attaching'
    'controller-incident-forgotten-control|controller-manager|without the timer the volume stays'
    'first-life|kubelet|a pod comes up, writes, is deleted'
    "first-life-control|kubelet|mount only says so: the pod writes onto the machine's own disk"
    'kubelet-restart|kubelet|kubelet restarts while the API is healthy'
    'kubelet-restart-control|kubelet|attach does not look what is attached: the pod loses its disk'
    'recreate|kubelet|the pod is deleted and made again on the same node, at once'
    'recreate-control|kubelet|the second mount only says so: the new pod finds nothing'
    'orphan|kubelet|the pod is deleted by force and made again while kubelet is down'
    'orphan-control|kubelet|the second mount only says so: the new pod finds nothing'
    'orphan-gone|kubelet|deleted by force while kubelet is down, and not made again'
    'orphan-gone-control|kubelet|without guard: unmounted under the old container'
    'resize|kubelet|the claim grows while the pod writes'
    'resize-control|kubelet|expandfs only says so: the claim has grown, the disk has not'
    'controller|controller-manager|the controller-manager attaches and detaches'
    'controller-control|controller-manager|isattached says no: it attaches again'
    'controller-incident|controller-manager|the incident with the controller-manager attaching'
    'controller-incident-control|controller-manager|without guard: unmounted under the pod, though not detached'
    'host-name|kubelet|the host has another name than the node: attached, waited for, detached'
    'host-name-control|kubelet|node.name is the name of the host: the disk is waited for elsewhere'
    'controller-host-name|controller-manager|the same with the controller-manager attaching'
    'controller-host-name-control|controller-manager|node.name is the name of the host'
    'server-name|kubelet|node, host and server have three names, in OpenStack: incident, and heal by attach alone'
    'server-name-control|kubelet|without heal: the container keeps its lost disk'
    'controller-server-name|controller-manager|the same with the controller-manager attaching'
    'controller-server-name-control|controller-manager|without heal: the container keeps its lost disk'
    'open-files|kubelet|after a heal a file is still open: the container is restarted in place, or the pod deleted'
    'open-files-control|kubelet|healed alone, the program writes to the lost disk for ever'
    'open-files-after|kubelet|the same with heal.after = "signal:TERM"'
    'open-files-after-control|kubelet|without it the program writes to the lost disk for ever'
    'kubeadm|controller-manager|the controller-manager in a bare root, as kubeadm is told by the files of examples/'
    'kubeadm-control|controller-manager|without a configuration beside the driver nothing is attached'
    'second-node|controller-manager|a pod of another node wants the same volume'
    'second-node-control|controller-manager|attach takes it from the first node: its pod loses its disk'
    'move|kubelet|a volume goes from one node to another, each with a kubelet'
    'move-control|kubelet|attach takes it from the first node: its pod loses its disk'
    'daemonset|kubelet|the DaemonSet of examples/ installs the driver, and reports drift'
    'daemonset-control|kubelet|it installs nothing: the pod gets no volume'
    'swap|kubelet|a driver of the old kind is replaced under running pods, put back, replaced again'
    'swap-control|kubelet|installed without a configuration: what comes then gets no volume'
    'eyes|kubelet|what looks, from the containers of two nodes: kubectl exec, the plugin of kubectl'
    'eyes-control|kubelet|without hostPID a container sees nothing of its node'
    'fleet|kubelet|rolled out node by node by kustomize and the plugin of kubectl: canary, a stop, and back'
    'fleet-control|kubelet|the overlay openstack instead: Kubernetes goes on past the first bad node'
    'detector|kubelet|node-problem-detector makes a condition of the node, and events'
    'detector-control|kubelet|its monitor asks another program'
)

# Played where they are named, or `long` is: they wait for minutes.
is_long() { [[ $1 == outage-75* || $1 == outage-300* ]]; }

# control_of NAME: of which scenario it is the control; nothing if it is none.
control_of() {
    case $1 in
        incident-lost) echo incident-unguarded ;;
        *-control) echo "${1%-control}" ;;
    esac
}

passed=0 failed=0 skipped=0 lines=()

# play NAME ATTACHER ABOUT
play() {
    local began=$SECONDS word why=''
    printf '\n--- %s: %s\n' "$1" "$3"
    if declare -F "skip_${1%-control}" >/dev/null; then
        why=$("skip_${1%-control}")
    fi
    if [[ -n $why ]]; then
        word=skipped skipped=$((skipped + 1))
        printf '  skipped: %s %s\n' "$1" "$why"
    elif play_row "$1" "$2"; then
        word=passed passed=$((passed + 1))
    else
        word=FAILED failed=$((failed + 1))
        keep_logs "$1"
        (clear_away)
    fi
    lines+=("$(printf '%-8s %-28s %4d s  %s' "$word" "$1" $((SECONDS - began)) "$3")")
    printf '  %s  %d s\n' "$word" $((SECONDS - began))
}

# play_row NAME ATTACHER
play_row() {
    local me=$1 scenario=${1%-control} status=0
    (
        row_began=$(now_ms)
        rm -rf "$second_logs"
        mark
        trap show_calls EXIT
        configure enforce auto
        attached_by "$2"
        if [[ $me == "$scenario" ]]; then
            "play_${me//-/_}"
        else
            "control_${scenario//-/_}"
            "play_${scenario//-/_}"
            fail "no check failed: $decisive"
        fi
    ) || status=$?
    [[ $me != "$scenario" ]] || return "$status"
    ((status == failed_as_it_must)) || return 1
    (
        row_began=$(now_ms)
        put_back
    )
}

keep_logs() {
    local part
    mkdir -p "/opt/kept/$1"
    cp -r /var/log/. "/opt/kept/$1/"
    cp /proc/self/mountinfo "/opt/kept/$1/mountinfo"
    kubectl get pods,pv,pvc,nodes,events -o wide >"/opt/kept/$1/objects" 2>&1 || true
    printf '  the logs are in %s/%s:\n' "$KEPT_AS" "$1"
    for part in "/opt/kept/$1"/{,node-b/}{parts/*.log,incloud-volume/*.jsonl}; do
        printf '    %s\n' "${part#/opt/kept/"$1"/}"
    done
}

# wanted NAME WORD...: without words all are that are not long; a scenario brings its control along.
wanted() {
    local name=$1 word
    shift
    (($#)) || ! is_long "$name" || return 1
    (($#)) || return 0
    for word in "$@"; do
        [[ $word != long ]] || ! is_long "$name" || return 0
        [[ $word != "$name" && $word != "$(control_of "$name")" ]] || return 0
    done
    return 1
}

# The checks and steps that took longest, over all rows.
show_times() {
    printf '\nwhere the time went:\n'
    awk -F '|' '
        { took[$2] += $1; count[$2]++; all += $1 }
        END { for (what in took) printf "%6.1f s  %3d times  %s\n", took[what] / 1000, count[what], what }
    ' "$times_taken" | sort -rn | head -n 15 | sed 's/^/  /'
}

for word in "$@"; do
    known=''
    [[ $word != long ]] || known=yes
    for scenario in "${scenarios[@]}"; do
        [[ $word != "${scenario%%|*}" ]] || known=yes
    done
    if [[ -z $known ]]; then
        printf 'kubernetes: there is no scenario %s; there are:' "$word" >&2
        printf ' %s' "${scenarios[@]%%|*}" long >&2
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
cluster_took=$SECONDS
for scenario in "${scenarios[@]}"; do
    name=${scenario%%|*}
    wanted "$name" "$@" || continue
    rest=${scenario#*|}
    play "$name" "${rest%%|*}" "${rest#*|}"
done

printf '\n'
printf '%s\n' "${lines[@]}"
show_times
printf '\nall of it took %d s, the start of the cluster %d s\n\n%d passed, %d failed, %d skipped\n' "$SECONDS" "$cluster_took" "$passed" "$failed" "$skipped"
((failed == 0))
