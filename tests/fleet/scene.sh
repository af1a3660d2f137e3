# Hosts, what is seen of them, and the table of scenes.
# shellcheck shell=bash disable=SC2154,SC2034 # what play.sh sets and uses

passed=0 failed=0 skipped=0

# play_scenes KIND: those of that kind, in their order, for each goes on from what the one before left.
play_scenes() {
    local kind=$1 scene began
    local -n scenes=scenes_of_$kind
    "prepare_$kind" || { printf 'fleet: %s cannot be prepared\n' "$kind" >&2; failed=$((failed + 1)); return; }
    for scene in "${scenes[@]}"; do
        began=$SECONDS
        # Not as the condition itself, where no command would end a scene by its failure.
        (set -e; "scene_$scene")
        local ended=$?
        if ((ended == 0)); then
            passed=$((passed + 1))
            printf 'ok      %-32s %3d s\n' "$scene" $((SECONDS - began))
        else
            failed=$((failed + 1))
            printf 'FAILED  %-32s %3d s\n' "$scene" $((SECONDS - began))
            # What comes next would go on from here.
            return
        fi
    done
}

skip_scenes() {
    local -n scenes=scenes_of_$1
    local scene
    for scene in "${scenes[@]}"; do
        printf 'skipped: %s: %s\n' "$scene" "$2"
        skipped=$((skipped + 1))
    done
}

# wrong WHAT: ends the scene, with what the last command said.
wrong() {
    printf '  WRONG: %s\n' "$1"
    [[ -z ${said-} || ! -f $said ]] || tail -n 200 "$said" | sed 's/^/    | /'
    exit 1
}

# expect WHAT COMMAND...
expect() {
    local what=$1
    shift
    "$@" || wrong "$what"
}

# refute WHAT COMMAND...: it must not be so.
refute() {
    local what=$1
    shift
    ! "$@" || wrong "$what"
}

# says TEXT: the last command did.
says() { grep -qF -e "$1" "$said"; }

# --- hosts ----------------------------------------------------------------------------------------

# start_host NAME [LAYER]: LAYER goes between the machine's own root and what is hidden of it.
start_host() {
    local folder=$FLEET/$1 layers=$work/layers/hidden${2:+:$2}:/ up process=''
    mkdir "$folder"
    mkfifo "$folder/up"
    exec {up}<>"$folder/up"
    unshare --mount --propagation private --uts --net --ipc \
        bash "$here/host.sh" "$folder" "$layers" "$up" &
    read -r -t 20 process <&"$up" || { printf 'fleet: the host %s did not start\n' "$1" >&2; return 1; }
    exec {up}>&-
    echo "$process" >"$folder/process"
}

# hide: a host has nothing of what this machine's driver, kubelet or user left.
hide() {
    local place layer=$work/layers/hidden
    for place in etc/incloud-disk usr/libexec/kubernetes var/lib/incloud-disk var/lib/kubelet var/log/incloud-volume \
        var/lib/cloud etc/cloud run tmp root var/tmp usr/local/bin/disk; do
        mkdir -p "$layer/$(dirname "$place")"
        # As an overlay notes that a file is gone.
        mknod "$layer/$place" c 0 0
    done
    chmod 755 "$layer"
}

# on HOST COMMAND: run by a shell there.
on() { bash "$here/ssh.sh" "$@"; }

# file HOST PATH: where it is to be seen from here, if the host has written it.
file() { printf '%s/%s/upper/%s\n' "$FLEET" "$1" "$2"; }

has() { [[ -e $(file "$1" "$2") ]]; }

# suitable_driver RELEASE: the one of its drivers that its install.sh takes here.
suitable_driver() { if "$1/disk-libudev" --version &>/dev/null; then echo disk-libudev; else echo disk; fi; }

sum_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

# state HOST: every file that it has written, but for locks, the log, and when it was installed.
state() {
    (cd "$FLEET/$1/upper" &&
        find . \( -type f -o -type l -o -type c \) ! -path './run/incloud-disk/*' -printf '%p %m %l\n' | sort &&
        find . -type f ! -path './run/incloud-disk/*' ! -path './var/log/*' ! -path ./var/lib/incloud-disk/installed \
            -exec sha256sum {} + | sort)
}

# keep_states HOST...: to be compared by `is_as_kept`.
keep_states() {
    local host
    for host in "$@"; do state "$host" >"$FLEET/$host/state"; done
}

# is_as_kept HOST...
is_as_kept() {
    local host
    for host in "$@"; do
        diff "$FLEET/$host/state" <(state "$host") >&2 || return 1
    done
}

# has_driver HOST SUM
has_driver() { has "$1" "$plugin/disk" && [[ $(sum_of "$(file "$1" "$plugin/disk")") == "$2" ]]; }

# The secret is in no file of the host but its configuration.
keeps_the_secret() {
    local host found
    for host in "$@"; do
        found=$(cd "$FLEET/$host/upper" && grep -rlaF -e "$secret" . | grep -v '^\./etc/incloud-disk/config\.toml\(\.before\)\?$') || continue
        printf '  on %s: %s\n' "$host" "$found" >&2
        return 1
    done
}
