# The host and its node have different names: kubelet runs with --hostname-override.
# shellcheck shell=bash disable=SC2034,SC2154 # what the other files set and use

# host_is_called NAME
host_is_called() {
    echo "$1" >/proc/sys/kernel/hostname
    did "the host is called $1, the node node-a"
}

play_host_name() {
    host_is_called e9c959da-master-2
    play_kubelet_restart
    host_is_called node-a
}

# The name of the host is taken for the node's, as it was before kubelet was asked.
control_host_name() {
    sed -i 's/^\[node\]$/&\nname = "e9c959da-master-2"/' "$driver_config"
    patience=20
    decisive="the StatefulSet's pod is up and writes"
}

put_back_host_name() {
    sed -i '/^name = "e9c959da-master-2"$/d' "$driver_config"
    host_is_called node-a
}

play_controller_host_name() {
    host_is_called e9c959da-master-2
    play_controller
    host_is_called node-a
}

control_controller_host_name() { control_host_name; }

put_back_controller_host_name() { put_back_host_name; }
