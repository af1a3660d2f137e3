# What building needs of a machine, and how it is told: install.sh reads this where there is a source. A
# release builds nothing, and has not this file.
# shellcheck shell=sh disable=SC2154,SC2034 # what install.sh sets and uses

# --- packages --------------------------------------------------------------------------------

install_packages() {
    list_missing_packages
    [ -n "$missing_apt" ] || return 0
    if have apt-get; then
        packages=$missing_apt
        update='apt-get update'
        install='apt-get install -y --no-install-recommends'
    elif have dnf; then
        packages=$missing_rpm
        update=:
        install='dnf install -y'
    elif have yum; then
        packages=$missing_rpm
        update=:
        install='yum install -y'
    else
        die "missing here:$reasons
No apt-get, dnf or yum was found. Install what is called$missing_apt
on Debian, then run this again."
    fi
    is_root || die "missing here:$reasons
Installing needs root. Run this, then come back:
  sudo sh -c '$(without_colon "$update")$install$packages'"

    say "missing here:$reasons"
    say "installing:$packages"
    # shellcheck disable=SC2086 # commands and package names, meant to be split
    {
        patiently 'fetching the list of packages' $update
        DEBIAN_FRONTEND=noninteractive patiently 'installing packages' $install $packages
    }
    list_missing_packages
    [ -z "$missing_apt" ] || die "still missing after the installation:$reasons"
}

without_colon() {
    [ "$1" = : ] || printf '%s && ' "$1"
}

list_missing_packages() {
    missing_apt='' missing_rpm='' reasons=''
    need 'gcc libc6-dev' 'gcc glibc-devel glibc-static' 'a C compiler that links' can_link
    need 'pkg-config' 'pkgconfig' 'pkg-config' have pkg-config
    need 'libudev-dev' 'systemd-devel' "libudev's headers" has_module libudev
    need 'e2fsprogs' 'e2fsprogs' 'tools for ext4' have mkfs.ext4 e2fsck resize2fs tune2fs
    need 'xfsprogs' 'xfsprogs' 'tools for xfs' have mkfs.xfs xfs_repair xfs_growfs
    need 'util-linux' 'util-linux' 'tools for namespaces' have unshare findmnt blkid
    need 'mount' 'util-linux' 'tools for mounts and loop devices' have mount umount losetup
    need 'ca-certificates' 'ca-certificates' "certificates for cargo's downloads" has_certificates
}

# need APT-PACKAGES RPM-PACKAGES WHAT CHECK...: notes the packages when the check fails.
need() {
    apt=$1 rpm=$2 what=$3
    shift 3
    "$@" >/dev/null 2>&1 && return 0
    missing_apt="$missing_apt $apt"
    missing_rpm="$missing_rpm $rpm"
    reasons="${reasons:+$reasons,} $what"
}

can_link() {
    have cc && echo 'int main(void) { return 0; }' >"$scratch/link.c" &&
        cc -o "$scratch/link" "$scratch/link.c"
}

has_module() {
    have pkg-config && pkg-config --exists "$1"
}

has_certificates() {
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
        [ -e /etc/ssl/ca-bundle.pem ] || [ -e /etc/ssl/cert.pem ]
}

# --- Rust ------------------------------------------------------------------------------------

# Sets `cargo` and, if another user than this process's builds, `builder` and `builder_home`.
find_rust() {
    wanted=$(sed -n 's/^rust-version *= *"\(.*\)".*/\1/p' Cargo.toml)
    seen=''
    builder='' builder_home=''
    sudo_home=''
    if is_root && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        sudo_home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
        # Building as root would leave files in a person's checkout that they cannot remove.
        if runuser -u "$SUDO_USER" -- test -w "$here"; then
            builder=$SUDO_USER builder_home=$sudo_home
            find_toolchain "$sudo_home/.cargo/bin" && return 0
            builder='' builder_home=''
        fi
    fi
    find_toolchain "${CARGO_HOME:+$CARGO_HOME/bin}" "${HOME:-/root}/.cargo/bin" && return 0
    # The toolchain of the person behind sudo serves root too, if it is told where rustup keeps it.
    if [ -d "$sudo_home/.rustup" ]; then
        export RUSTUP_HOME="$sudo_home/.rustup"
        find_toolchain "$sudo_home/.cargo/bin" && return 0
    fi
    die "building needs Rust $wanted or newer (cargo and rustc); found: ${seen:-none}
Install it with rustup, https://rustup.rs, or from the distribution if that is new enough,
then run this again. No toolchain is downloaded by this script."
}

# find_toolchain FOLDER...: takes the first good toolchain, PATH before the folders given.
find_toolchain() {
    for folder in "$(dirname -- "$(command -v cargo || echo /nowhere/cargo)")" "$@"; do
        if [ -n "$folder" ] && is_good_toolchain "$folder"; then
            cargo=$folder/cargo
            PATH=$folder:$PATH
            return 0
        fi
    done
    return 1
}

is_good_toolchain() {
    as_builder test -x "$1/cargo" && as_builder test -x "$1/rustc" || return 1
    found=$(as_builder "$1/rustc" --version 2>/dev/null) || found="rustc without a toolchain"
    as_builder "$1/cargo" --version >/dev/null 2>&1 || found="cargo without a toolchain"
    version=$(echo "$found" | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    if [ -n "$version" ] && is_at_least "$wanted" "$version"; then
        return 0
    fi
    seen="${seen:+$seen, }$found in $1"
    return 1
}

# is_at_least WANTED VERSION
is_at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

as_builder() {
    if [ -z "$builder" ]; then
        "$@"
    else
        runuser -u "$builder" -- env -u CARGO_HOME HOME="$builder_home" PATH="$PATH" "$@"
    fi
}

# Where cargo puts what it builds: this folder's `target`, unless the person set another.
target_folder() {
    as_builder "$cargo" metadata --format-version 1 --no-deps --locked |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# --- how far it is ---------------------------------------------------------------------------

# quietly COMMAND...: shows the command's output only if it fails.
quietly() {
    "$@" >"$scratch/output" 2>&1 </dev/null && return 0
    cat "$scratch/output" >&2
    command=$*
    die "this failed, its output stands above: ${command#as_builder }"
}

# building WHAT COMMAND...: on a terminal cargo shows how far it is.
building() {
    what=$1
    shift
    if [ -t 2 ]; then
        command=$*
        "$@" >"$scratch/output" </dev/null || die "this failed, its output stands above: ${command#as_builder }"
    else
        patiently "building $what" "$@"
    fi
}

# patiently DOING COMMAND...: quietly, with a line each 20 seconds.
patiently() {
    doing=$1
    shift
    tell_time "$doing" &
    teller=$!
    quietly "$@"
    end_teller
}

# What sleeps must not keep a reader of our output waiting.
tell_time() {
    trap - EXIT INT TERM HUP
    seconds=0
    while sleep 20 >/dev/null 2>&1; do
        seconds=$((seconds + 20))
        say "still $1, $seconds s"
    done
}

# --- the drivers of a release -------------------------------------------------------------------

# build_static OPTION...: without udev nothing of the binary is a library that must be loaded. With a target
# named, the flags do not reach the programs that the build itself runs.
build_static() {
    flags=-Ctarget-feature=+crt-static
    add_path_flags
    ! packs_relocations || add_flag "$pack"
    as_builder env CARGO_ENCODED_RUSTFLAGS="$flags" \
        "$cargo" build --locked --no-default-features --target "$(host_triple)" "$@"
}

# Relocations take 4 KB instead of 258.
pack=-Clink-arg=-Wl,-z,pack-relative-relocs

# packs_relocations: whether the linker can, and a static program with it starts: glibc reads such a table since 2.36.
packs_relocations() {
    # shellcheck disable=SC2016 # for the inner shell
    as_builder sh -c 'probe=$(mktemp -d) && trap "rm -r \"$probe\"" EXIT && echo "fn main() {}" |
        "$1" -Ctarget-feature=+crt-static "$2" -o "$probe/probe" - && "$probe/probe"' \
        - "$(dirname "$cargo")/rustc" "$pack" >/dev/null 2>&1
}

# build_with_libudev [FLAG...]: flags of rustc for the executable alone, such as its linker.
build_with_libudev() {
    flags=''
    add_path_flags
    # A linker that is named has an unwinder of its own, and links for older machines.
    if [ $# -eq 0 ] && loads_quickly; then set -- "-Clink-arg=-L$unwinder" "$pack"; fi
    as_builder env CARGO_ENCODED_RUSTFLAGS="${flags#?}" "$cargo" rustc --locked --release --bin disk -- "$@"
}

# loads_quickly: whether a program starts here whose relocations are packed, and into which the compiler's unwinder is
# linked: a library less to load. Sets `unwinder`, the folder in which the linker finds the archive under the library's name.
loads_quickly() {
    unwinder=$(target_folder)/tools/unwinder
    # shellcheck disable=SC2016 # for the inner shell
    as_builder sh -c 'mkdir -p "$1" && echo "INPUT(-lgcc_eh)" >"$1/libgcc_s.so" && echo "fn main() {}" |
        "$2" "-Clink-arg=-L$1" "$3" -o "$1/probe" - && "$1/probe"' \
        - "$unwinder" "$(dirname "$cargo")/rustc" "$pack" >/dev/null 2>&1
}

# No path of this machine gets into the binary, so that the same source makes the same bytes in whatever folder.
add_path_flags() {
    cargo_home=${CARGO_HOME:-${HOME:-/root}/.cargo}
    [ -z "$builder" ] || cargo_home=$builder_home/.cargo
    add_flag "--remap-path-prefix=$(as_builder "$(dirname "$cargo")/rustc" --print sysroot)=/rust"
    add_flag "--remap-path-prefix=$cargo_home=/cargo"
    for crates in "$cargo_home"/registry/src/*/; do
        [ ! -d "$crates" ] || add_flag "--remap-path-prefix=${crates%/}=/crates"
    done
    add_flag "--remap-path-prefix=$here=/incloud-disk"
    add_flag "--remap-path-prefix=$(target_folder)=/incloud-disk/target"
}

# add_flag FLAG: with the sign between them that cargo wants where a path may have blanks.
add_flag() { flags=$(printf '%s\037%s' "$flags" "$1"); }

host_triple() { as_builder "$(dirname "$cargo")/rustc" -vV | sed -n 's/^host: //p'; }
