# Outages of some length, and pods of several kinds in one; claims of which some can be read.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # what the other files set and use

# --- etcd frozen for some time ----------------------------------------------------------------------

# What an outage meets: a set's pod, two pods on one volume, one with the volume in its own specification
# (kubelet reads no claim for it), and two that end in the outage.
name_kinds() {
    several=()
    volume_of=() file_of=() has_ended=() is_single=()
    have_pod "$me-0" "vol-$me"
    have_pod "$me-left" "vol-$me-pair"
    have_pod "$me-right" "vol-$me-pair" /data/right
    have_pod "$me-inline" "vol-$me-inline"
    have_pod "$me-first" "vol-$me-first"
    have_pod "$me-second" "vol-$me-second"
    is_single[$me-first]=yes is_single[$me-second]=yes
}

make_kinds() {
    local kind base=$me
    name_kinds
    growable
    make_volume
    make_set
    fs_type=ext4 size=256
    for kind in pair first second; do
        me=$base-$kind make_volume
        me=$base-$kind make_claim
    done
    disk local create "vol-$me-inline" --size 256M >/dev/null || fail 'no volume in the cloud'
    for kind in left right; do
        make_pod "$me-$kind" "persistentVolumeClaim: {claimName: data-$me-pair-0}"
    done
    make_pod "$me-inline" "flexVolume: {driver: incloud/disk, fsType: ext4, options: {volumeID: vol-$me-inline}}"
    for kind in first second; do
        make_pod "$me-$kind" "persistentVolumeClaim: {claimName: data-$me-$kind-0}" Never
    done
    expect 'pods of six kinds are up and write' 120 all_up
    remember_all
    expect '... each on its volume' 1 all_on_their_volumes
}

# those_with_claims: the volumes for which kubelet has a claim to read.
those_with_claims() { printf "pv-$me%s\n" '' -pair -first -second; }

# freeze: from here on `frozen_for` counts.
freeze() {
    stop_part kubelet
    freeze_etcd
    frozen_since=$(uptime_ms)
    mark_kubelet
    start_kubelet
    did 'kubelet stopped, etcd frozen (SIGSTOP), kubelet started'
}

# stay_frozen SECONDS: of all in all.
stay_frozen() {
    local left=$((frozen_since + $1 * 1000 - $(uptime_ms)))
    ((left <= 0)) || sleep "$((left / 1000)).$(printf '%03d' $((left % 1000)))"
    thaw_etcd
    did "etcd goes on after $((($(uptime_ms) - frozen_since) / 1000)) s"
    until_true 120 node_is_ready || fail 'the node is not ready'
}

# dies POD: its only container is killed, and not started again.
dies() {
    has_ended[$1]=yes
    kill -KILL "${pid_then[$1]}"
    did "the container of $1 is killed, and none is to follow"
}

# outage SECONDS: twice so long, or until kubelet has let go (it waits five seconds for each claim); with
# one restart of kubelet, then with three.
outage() {
    local turn volumes detached
    make_kinds
    mapfile -t volumes < <(those_with_claims)
    freeze
    expect 'kubelet wants to unmount all four' 120 wants_each "${volumes[@]}"
    sleep 2
    expect 'each container writes on' 10 all_write
    expect '... and lost nothing' 1 all_lost_none
    expect 'nothing was detached' 1 called_never detach
    dies "$me-first"
    expect '... and its volume comes down, while etcd is frozen' 60 is_free "vol-$me-first"
    stay_frozen "$1"
    crash_and_come_again

    freeze
    expect 'kubelet wants to unmount, once more' 120 wants_each "pv-$me" "pv-$me-pair" "pv-$me-second"
    detached=$(times detach Success)
    for turn in 2 3; do
        sleep 8
        stop_part kubelet
        start_kubelet
        did "kubelet restarted once more ($turn)"
    done
    sleep 8
    expect 'each container writes on' 10 all_write
    expect '... and lost nothing' 1 all_lost_none
    expect 'nothing was detached' 1 called_exactly detach Success "$detached"
    dies "$me-second"
    stay_frozen "$1"
    expect '... and its volume comes down, by the timer if not by kubelet' 120 timer_frees "vol-$me-second"
    crash_and_come_again

    (($1 > 0)) || short_outage
    afterwards
    put_all_away
}

# short_outage: three restarts in 20 s, in which kubelet comes to none of them.
short_outage() {
    local turn
    freeze
    for turn in 2 3; do
        sleep 6
        stop_part kubelet
        start_kubelet
        did "kubelet restarted once more ($turn)"
    done
    stay_frozen 20
    expect 'each container writes on' 10 all_write
    expect 'each is the same' 10 all_the_same
    crash_and_come_again
}

# afterwards: what comes after an outage goes as ever.
afterwards() {
    local unmounts wanted=512
    told patch pvc "data-$me-0" --type merge \
        -p "{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"${wanted}Mi\"}}}}" || fail 'the claim cannot grow'
    expect 'the claim grows, and kubelet has it grown' 120 claim_has "${wanted}Mi"
    pid=${pid_then[$me-0]}
    expect '... and the container sees it' 5 container_has_more_than 400000
    unmounts=$(times unmount Success)
    mark_kubelet
    stop_part kubelet
    start_kubelet
    expect 'kubelet restarted, the API is healthy: it finds each attached' 60 kubelet_knows_all
    sleep 5
    expect 'each container is the same' 10 all_the_same
    expect '... and none was unmounted' 1 called_exactly unmount Success "$unmounts"
    crash_and_come_again
}

kubelet_knows_all() {
    local name known=0
    for name in "pv-$me" "pv-$me-pair" own; do
        ! tail -c "+$((kubelet_log_mark + 1))" "$part_logs/kubelet.log" |
            grep -q "WaitForAttach succeeded for volume \"$name\"" || known=$((known + 1))
    done
    saw="$known of 3"
    ((known == 3))
}

# is_free VOLUME
is_free() {
    saw=$(disk local list | awk -v id="$1" '$1 == id { print "attached to: " $4 }')
    [[ $saw == *': -' ]]
}

timer_frees() {
    sleep 5
    disk heal >/dev/null 2>&1
    is_free "$1"
}

# As the driver answered an unmount before, but for the pod that dies: kubelet then waits for a mount that
# is there.
control_outage() {
    stand_before "case \"\$1 \$2\" in
    unmount*-first) ;;
    unmount*) [ ! -e /run/refuses ] || {
        echo '{\"status\":\"Failure\",\"message\":\"the pod still runs\"}'
        exit
    } ;;
esac"
    : >/run/refuses
    decisive='kubelet starts each again by itself'
    patience=30
}

put_away_outage() {
    rm -f /run/refuses
    # Only a restart ends it.
    stop_part kubelet
    start_kubelet
    name_kinds
    has_ended[$me-first]=yes
    expect 'kubelet restarted: the containers are up again' 120 all_up
    put_all_away
}

play_outage() { outage 0; }
play_outage_75() { outage 75; }
play_outage_300() { outage 300; }
control_outage_75() { control_outage; }
control_outage_300() { control_outage; }
put_away_outage_75() { put_away_outage; }
put_away_outage_300() { put_away_outage; }

# --- ten pods, and claims that fail -------------------------------------------------------------------

name_ten() {
    local turn
    several=()
    volume_of=() file_of=() has_ended=() is_single=()
    for turn in {0..9}; do have_pod "$me-$turn-0" "vol-$me-$turn"; done
}

readonly claim_rules=/run/claims

# behind_a_proxy: kubelet asks the API server through it from now on. Python comes with xfsprogs.
behind_a_proxy() {
    local token
    command -v python3 >/dev/null || fail 'the proxy is written in python, and the node has none'
    token=$(cut -d , -f 1 /run/kubernetes/tokens)
    sed -e "s|server: \"$api\", insecure-skip-tls-verify: true|server: \"http://$address:8001\"|" "$KUBECONFIG" >/run/kubernetes/behind
    start proxy python3 "$here/claims.py" "$address" 8001 6443 "$token" "$claim_rules"
    until_true 30 kubectl --kubeconfig /run/kubernetes/behind get --raw /readyz >/dev/null 2>&1 || fail 'the proxy does not answer'
    asks_by=/run/kubernetes/behind
}

without_proxy() {
    [[ -e $pids/proxy ]] || return 0
    asks_by=$KUBECONFIG
    stop_part kubelet
    ! runs proxy || stop_part proxy
    rm -f "$pids/proxy"
    start_kubelet
}

# reads_fail: how often, by the proxy's own account.
reads_fail() {
    local all each
    all=$(grep -c '^500 ' "$part_logs/proxy.log")
    each=$(awk '$1 == "500" { print $2 }' "$part_logs/proxy.log" | sort -u | wc -l)
    saw="$all reads of $each claims"
    ((all >= $1))
}

# Ten pods of one node, each with its volume: first some claims cannot be read, then none.
play_incident_ten() {
    local turn detached base=$me
    name_ten
    for turn in {0..9}; do
        me=$base-$turn make_volume
        me=$base-$turn make_set
    done
    expect 'ten pods are up and write' 180 all_up
    remember_all
    expect '... each on its volume' 1 all_on_their_volumes
    stop_part kubelet
    did 'kubelet stopped'
    for turn in {0..9}; do
        echo "data-$me-$turn-0 $((turn < 4 ? 100 : 50))"
    done >"$claim_rules"
    : >"$part_logs/proxy.log"
    behind_a_proxy
    mark_kubelet
    start_kubelet
    did 'kubelet started: of four claims each read fails, of six each second one, at random'
    expect 'it wants to unmount the four' 120 wants_each "pv-$me-"{0..3}
    expect '... for their claims cannot be read' 60 reads_fail 20
    expect 'each container writes on' 10 all_write
    expect '... and lost nothing' 1 all_lost_none
    expect 'nothing was detached' 1 called_never detach
    expect 'each is the same' 10 all_the_same
    did "$(calls | awk '$2 == "unmount" && $3 == "Success" { print $NF }' | sort -u | wc -l) folders of ten were let go of"
    : >"$claim_rules"
    did 'every claim can be read'
    until_true 120 node_is_ready || fail 'the node is not ready'
    crash_and_come_again

    # One that was killed before its volume was mounted again had its volume detached, and attached anew.
    detached=$(times detach Success)
    freeze
    expect 'etcd frozen: kubelet wants to unmount all ten' 120 wants_each "pv-$me-"{0..9}
    sleep 2
    expect 'each container writes on' 10 all_write
    expect '... and lost nothing' 1 all_lost_none
    expect 'nothing was detached' 1 called_exactly detach Success "$detached"
    stay_frozen 0
    crash_and_come_again
    put_all_away
    without_proxy
}

control_incident_ten() {
    configure off off
    decisive='each container writes on'
}

put_away_incident_ten() {
    : >"$claim_rules"
    without_proxy
    name_ten
    # A worker of kubelet's that waits for a volume hears of it after 2 min 3 s only.
    put_all_away 180
}
