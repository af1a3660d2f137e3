#!/bin/bash
# Gets the parts of the cluster: parts.sh CACHE
#
# Debian's packages are downloaded and unpacked below CACHE, with apt state of its own and from the
# mirrors that this machine's own sources name; nothing is installed. Kubernetes 1.20 is built there
# from Debian's source package. What is there already is neither fetched nor built again.
#
#   CACHE/root     the root of the cluster's machine: etcd, containerd, runc and their company
#   CACHE/built    what was built, as a second root
#   CACHE/images   the containers' images
#   CACHE/version  what was built
set -euo pipefail
shopt -s nullglob

cache=$1
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/support/debian.sh
source "$here/../support/debian.sh"
# shellcheck source=tests/support/parts.sh
source "$here/../support/parts.sh"

# The release whose source package has Kubernetes 1.20, with a Go that builds it.
release=bookworm

# The cluster's programs; then the tools that kubelet, containerd, the driver and install.sh call.
machine_packages=(
    etcd-server etcd-client containerd runc containernetworking-plugins
    iptables conntrack ethtool socat iproute2 kmod ebtables
    bash dash coreutils util-linux mount grep sed gawk findutils procps diffutils
    e2fsprogs xfsprogs udev openssl ca-certificates base-files base-passwd libc6 libudev1 libgcc-s1
)
builder_packages=(golang-go patch xz-utils)
image_packages=(busybox-static)

commands=(kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl)
# They tell each other their versions, which the project's own build takes from git.
versions=k8s.io/kubernetes/vendor/k8s.io/component-base/version
flags="-s -w -X $versions.gitVersion=v1.20.2 -X $versions.gitMajor=1 -X $versions.gitMinor=20"

main() {
    [[ $(dpkg --print-architecture 2>/dev/null) == amd64 ]] ||
        die "the cluster is made of Debian's packages for amd64, and this machine has no dpkg of that kind"
    mkdir -p "$cache/log"
    # Two at once would build into each other.
    exec 8>"$cache/lock"
    flock 8
    if [[ -f $cache/done && $(<"$cache/done") == "$(wanted)" ]]; then
        return
    fi
    say "making them in $cache (0.8 GB); what is there already stays"
    know_release
    unpack_once root "${machine_packages[@]}"
    unpack_once busybox "${image_packages[@]}"
    if ! is_built; then
        unpack_once builder "${builder_packages[@]}"
        get_source
        build
        build_key >"$cache/built.done"
    fi
    say 'making the image of the containers'
    bash "$here/images.sh" "$cache"
    rm -rf "$cache"/{apt,builder,builder.done,download,source,source.done,gopath,gocache}
    wanted >"$cache/done"
    done_after 'all parts are made' 0
}

# Kept, whatever else of this changes: the build takes longest.
build_key() { printf '%s\n' "$flags" "${commands[*]}" | cat - "$here/openapi.sh" | sha256sum; }

is_built() {
    local command
    [[ -f $cache/built.done && $(<"$cache/built.done") == "$(build_key)" ]] || return 1
    for command in "${commands[@]}"; do
        [[ -x $cache/built/usr/bin/$command ]] || return 1
    done
}

# What the cache was made by.
wanted() {
    cat "$here"/{parts,images,image,openapi}.sh "$here"/../support/{debian,parts}.sh | sha256sum
}

# --- packages ----------------------------------------------------------------------------------

know_release() {
    find_mirrors "$release"
    use_suites "$cache/apt" 'deb deb-src' "$release" "$release-security"
    say "reading the package lists of $release from this machine's mirrors"
    logged update apt_here update
}

# --- Kubernetes --------------------------------------------------------------------------------

get_source() {
    source=$cache/source
    [[ ! -f $cache/source.done ]] || return 0
    say "downloading the source of Kubernetes 1.20 (34 MB), applying Debian's patches"
    rm -rf "$source" "$cache/download"
    mkdir -p "$cache/download" "$source"
    (cd "$cache/download" && logged source apt_here source --download-only kubernetes)
    local part patch
    # tar calls xz, which not every machine has.
    local PATH=$PATH:$cache/builder/usr/bin
    for part in "$cache/download"/*.orig.tar.*; do
        tar -x -f "$part" -C "$source" --strip-components 1 --no-same-owner
    done
    for part in "$cache/download"/*.debian.tar.*; do
        tar -x -f "$part" -C "$source" --no-same-owner
    done
    while read -r patch; do
        logged "patch-${patch##*/}" "$cache/builder/usr/bin/patch" -d "$source" -p1 -i "$source/debian/patches/$patch"
    done < <(sed -E 's/ .*//; /^(#|$)/d' "$source/debian/patches/series")
    sed -n '1s/.*(\(.*\)).*/\1/p' "$source/debian/changelog" >"$cache/version"
    : >"$cache/source.done"
}

# Module mode fails with this Go ("updates to go.mod needed"), so the tree stands in a GOPATH.
build() {
    local command
    export GOROOT=$cache/builder/usr/lib/go-1.19 GOPATH=$cache/gopath GOCACHE=$cache/gocache
    export GO111MODULE=off GOFLAGS=-trimpath CGO_ENABLED=0 GOTOOLCHAIN=local HOME=$cache
    go=$GOROOT/bin/go
    mkdir -p "$GOPATH/src/k8s.io" "$cache/built/usr/bin"
    if [[ -f $cache/built.done || ! -f $cache/built.begun || $(<"$cache/built.begun") != "$(build_key)" ]]; then
        rm -rf "$cache"/built.done "$cache"/built/usr/bin/*
        build_key >"$cache/built.begun"
    fi
    ln -sfn "$source" "$GOPATH/src/k8s.io/kubernetes"
    cd "$GOPATH/src/k8s.io/kubernetes"
    for command in "${commands[@]}"; do
        build_once "$command"
    done
}

# build_once COMMAND
build_once() {
    [[ ! -x $cache/built/usr/bin/$1 ]] || return 0
    local began=$SECONDS
    if [[ $1 == kube-apiserver && ! -f pkg/generated/openapi/zz_generated.openapi.go ]]; then
        say "generating what kube-apiserver says of its types"
        logged openapi bash "$here/openapi.sh" "$go"
    fi
    say "building $1, of: ${commands[*]} (six minutes for all five, on two idle cores)"
    # It names each package when it is compiled.
    logged "build-$1" nice -n 10 "$go" build -v -ldflags "$flags" -o "$cache/fresh" "./cmd/$1"
    mv "$cache/fresh" "$cache/built/usr/bin/$1"
    done_after "$1 is built" "$began"
}

main
