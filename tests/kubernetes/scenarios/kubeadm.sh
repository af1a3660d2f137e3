# The controller-manager as kubeadm's static pod has it: a root without anything but the plugin folder, by what the two
# files of examples/ tell kubeadm. The driver there is the static one, and its configuration lies beside it.
#
# The cloud of these tests is a folder and loop devices, so both are mounted there too, where another cloud is reached by
# network. What is attached from another root the local cloud does not take for attached on the node, so nothing is
# mounted here; the row `controller` does that.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

readonly bare=/run/bare

play_kubeadm() {
    local file
    for file in kubeadm-before-1.36 kubeadm-from-1.36; do
        told_to_kubeadm "$file"
        driver_for_controllers
        controllers_in_bare_root
        expect "$file: the controller-manager runs with $folder, $mode" 30 controllers_say 'Started "attachdetach"'
        make_volume
        make_set
        expect 'it attached, by its own word' 60 controllers_say "AttachVolume.Attach succeeded for volume \"pv-$me\""
        delete_set
        expect 'the pod deleted: it detached, by its own word' 120 controllers_say "DetachVolume.Detach succeeded for volume \"pv-$me\""
        expect '... and the pod is gone' 120 is_gone
        put_away
    done
    put_back_kubeadm
}

# Without its configuration the driver knows no cloud there.
control_kubeadm() {
    patience=20
    decisive='it attached, by its own word'
}

put_back_kubeadm() {
    ! runs controller-manager || stop_part controller-manager
    stop_part scheduler
    rm -rf "$bare" "$plugins/incloud~disk/.config.toml" /var/lib/kubelet/volume-plugins
    start_controllers
    did 'the controller-manager as before'
}

# told_to_kubeadm FILE: sets `folder` and `mode`. Before 1.36 kubeadm itself mounts the folder of the flag, to be written to.
told_to_kubeadm() {
    local text=/opt/project/examples/$1.yaml
    if [[ $1 == kubeadm-before-1.36 ]]; then
        folder=$(sed -n 's/^ *flex-volume-plugin-dir: //p' "$text") mode=rw
    else
        folder=$(sed -n 's/^ *mountPath: //p' "$text") mode=ro
        [[ $(sed -n 's/^ *hostPath: //p' "$text") == "$folder" && $(sed -n 's/^ *value: //p' "$text") == "$folder" ]] ||
            fail "$1 names several folders"
        grep -q '^ *readOnly: true' "$text" || mode=rw
    fi
    [[ $folder == /* ]] || fail "$1 names no folder"
}

driver_for_controllers() {
    mkdir -p /var/lib/incloud-disk/local
    if [[ $folder != "$plugins" ]]; then
        mkdir -p "$folder"
        cp -a "$plugins/incloud~disk" "$folder/"
    fi
    [[ $me == kubeadm ]] || return 0
    (umask 077 && printf '[cloud]\nkind = "local"\n' >"$folder/incloud~disk/.config.toml")
}

# Its own processes, mounts and root, the machine's network: as a static pod of that image.
controllers_in_bare_root() {
    ! runs controller-manager || stop_part controller-manager
    controllers_mark=$(stat -c %s "$part_logs/controller-manager.log")
    start controller-manager unshare --mount --pid --fork --kill-child=TERM --propagation private -- \
        bash "$here/bare.sh" "$bare" "$folder" "$mode" \
        kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false \
        --attach-detach-reconcile-sync-period 10s --flex-volume-plugin-dir "$folder" --cert-dir /run/kubernetes --v 4
    # What began it does not hand signals on.
    until_true 10 their_process || fail 'the controller-manager does not start'
}

their_process() {
    local child
    child=$(pgrep -P "$(pid_of controller-manager)" | head -n 1)
    [[ -n $child ]] && echo "$child" >"$pids/controller-manager"
}

controllers_say() {
    saw=$(tail -c "+$((controllers_mark + 1))" "$part_logs/controller-manager.log" | grep -oF "$1" | head -n 1)
    [[ -n $saw ]]
}
