# The controller-manager attaches and detaches, kubelet only mounts.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

# attached_by ATTACHER: kubelet, or the controller-manager; one that does already is left alone.
attached_by() {
    [[ $1 != "$(cat /run/attacher)" ]] || return 0
    stop_part kubelet
    start_kubelet "$1"
    if [[ $1 == kubelet ]]; then
        expect 'kubelet attaches from now on' 60 node_is_kubelets
    else
        expect 'the controller-manager attaches from now on' 60 node_is_handed_over
    fi
}

node_is_handed_over() {
    node_is_ready && kubectl get node node-a -o yaml | grep -q 'controller-managed-attach-detach: "true"'
}

node_is_kubelets() { node_is_ready && ! node_is_handed_over; }

# by_controller WORD: a call whose parent is the controller-manager.
by_controller() {
    saw=$(driver_log | tail -n +$((marked + 1)) | sed -nE "s/.*\"message\":\"begin\".*(\"parent\":\"kube-controller[^\"]*\").*\"op\":\"$1\".*/\1/p" | head -n 1)
    [[ -n $saw ]]
}

play_controller() {
    begin
    expect 'the controller-manager attached' 1 by_controller attach
    expect 'the container writes' 5 goes_on
    local waited
    waited=$(times waitforattach Success)
    stop_part kubelet
    start_kubelet
    expect 'kubelet restarted: it waits for the disk' 60 called waitforattach Success $((waited + 1))
    expect 'the controller-manager asks whether it is attached, twice' 100 called isattached Success 2
    sleep 1
    expect '... and so attached it once' 1 called_exactly attach Success 1
    expect 'nothing was torn down' 1 called_never unmount unmountdevice detach
    expect 'the same container, never restarted' 10 is_same
    expect '... lost nothing' 1 lost_none
    put_away
    expect 'the controller-manager detached' 1 by_controller detach
}

# An answer other than yes means to the controller-manager that it was detached behind its back.
control_controller() {
    stand_before "[ \"\$1\" != isattached ] || {
    \"\$real\" \"\$@\" >/dev/null
    echo '{\"status\":\"Success\",\"attached\":false}'
    exit
}"
    decisive='... and so attached it once'
}

# called_exactly WORD ANSWER COUNT
called_exactly() {
    local count
    count=$(times "$1" "$2")
    saw="$count times"
    ((count == $3))
}

play_controller_incident() {
    guarded_incident
    # Here kubelet is not restarted.
    put_away
}

# Here kubelet detaches nothing, so that what the container holds stays alive.
control_controller_incident() {
    configure off off
    decisive='... its volume is mounted'
}

# A node that is an object only, and a pod that was put there by hand.
play_second_node() {
    # With ReadWriteOnce the controller would not even ask the driver.
    begin ReadWriteMany
    apply <<'YAML' || fail 'no second node'
apiVersion: v1
kind: Node
metadata:
  name: node-b
  annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}
YAML
    make_rival
    did 'a pod of node-b wants the volume that node-a has'
    expect 'the controller-manager asks the driver, and tells the pod' 60 event_says '[Aa]ttach'
    expect 'the container on node-a runs' 1 lives
    expect 'the container on node-a writes on' 5 goes_on
    expect 'the driver refused' 1 called attach Failure
    expect '... and the event says why' 30 event_says 'Multi-Attach error'
    expect '... the same, never restarted' 10 is_same
    expect '... lost nothing' 1 lost_none
    put_back_second_node
    put_away
}

put_back_second_node() {
    told delete --ignore-not-found pod "$me-rival" --force --grace-period 0
    forget_second_node
}

# As drivers do that take a volume to where it is wanted.
control_second_node() {
    configure enforce off
    stand_before "[ \"\$1 \$3\" != 'attach node-b' ] || {
    \"\$real\" detach --force vol-$me >/dev/null 2>&1
    echo '{\"status\":\"Success\",\"device\":\"/dev/null\"}'
    exit
}"
    decisive='the container on node-a writes on'
}

event_says() {
    saw=$(kubectl get events --field-selector "involvedObject.name=$me-rival" -o 'jsonpath={range .items[*]}{.message}{"\n"}{end}' | grep -o "$1.*" | head -n 1)
    [[ -n $saw ]]
}
