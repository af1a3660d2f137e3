# The controller-manager attaches and detaches, kubelet only mounts.
# shellcheck shell=bash disable=SC2154 # what scene.sh and cluster.sh set

with_controller() {
    stop_part kubelet
    start_kubelet controller-manager
    expect 'the node is in the hands of the controller-manager' 60 node_is_handed_over
}

without_controller() {
    stop_part kubelet
    start_kubelet kubelet
    expect 'the node is in the hands of kubelet' 60 node_is_kubelets
}

node_is_handed_over() {
    node_is_ready && kubectl get node node-a -o yaml | grep -q 'controller-managed-attach-detach: "true"'
}

node_is_kubelets() { node_is_ready && ! node_is_handed_over; }

# by_controller WORD: a call whose parent is the controller-manager.
by_controller() {
    saw=$(driver_log | tail -n +$((marked + 1)) | sed -nE "s/.* op=\"$1\"}: begin .* (parent=\"kube-controller[^\"]*\").*/\1/p" | head -n 1)
    [[ -n $saw ]]
}

play_controller() {
    with_controller
    begin controller
    expect 'the controller-manager attached' 1 by_controller attach
    expect 'the container writes' 5 goes_on
    local waited
    waited=$(times waitforattach Success)
    stop_part kubelet
    start_kubelet
    expect 'kubelet restarted: it waits for the disk' 60 called waitforattach Success $((waited + 1))
    expect 'the controller-manager asks whether it is attached' 100 called isattached Success
    expect 'nothing was torn down' 1 called_never unmount unmountdevice detach
    expect 'the same container, never restarted' 10 is_same controller
    expect '... lost nothing' 1 lost_none controller
    put_away controller
    expect 'the controller-manager detached' 1 by_controller detach
    without_controller
}

play_controller_incident() {
    with_controller
    guarded_incident controller-incident
    # Here kubelet is not restarted.
    put_away controller-incident
    without_controller
}

# A node that is an object only, and a pod that was put there by hand.
play_second_node() {
    with_controller
    # With ReadWriteOnce the controller would not even ask the driver.
    begin second-node ReadWriteMany
    kubectl apply -f - >/dev/null <<'YAML' || fail 'no second node'
apiVersion: v1
kind: Node
metadata:
  name: node-b
  annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}
YAML
    kubectl apply -f - >/dev/null <<'YAML' || fail 'no second pod'
apiVersion: v1
kind: Pod
metadata: {name: rival}
spec:
  nodeName: node-b
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  containers: [{name: rival, image: "localhost/box:1", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-second-node-0}}]
YAML
    did 'a pod of node-b wants the volume that node-a has'
    expect 'the controller-manager asks, the driver refuses' 60 called attach Failure
    expect '... and the event says why' 30 event_says 'Multi-Attach error'
    expect 'the container on node-a writes on' 5 goes_on
    expect '... the same, never restarted' 10 is_same second-node
    expect '... lost nothing' 1 lost_none second-node
    kubectl delete pod rival --force --grace-period 0 >/dev/null 2>&1
    kubectl delete node node-b >/dev/null 2>&1
    put_away second-node
    without_controller
}

event_says() {
    saw=$(kubectl get events --field-selector involvedObject.name=rival -o 'jsonpath={range .items[*]}{.message}{"\n"}{end}' | grep -o "$1.*" | head -n 1)
    [[ -n $saw ]]
}
