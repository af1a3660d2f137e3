# How a release is made: both drivers, the tarball for nodes, the image for the DaemonSet, what each is made of, and
# signatures. The same source and toolchain make the same bytes, in whatever folder.
# shellcheck shell=sh disable=SC2154,SC2034 # what install.sh and tests/run set and use

# The tool that lists what a driver is made of.
sbom_tool=cargo-cyclonedx sbom_version=0.5.9

word_release() {
    read_options '--out --sign' "$@"
    must_be_a_key
    build_both_drivers
    must_have_its_tag
    pack_release "${out:-$(target_folder)/release-tarball}"
    tell_parts
    put "$scratch/$name.tar.gz" "$scratch/$name.tar.gz.sha256"
    say "packed: $folder/$name.tar.gz"
    [ ! -f "$scratch/$name.cdx.json" ] || put "$scratch/$name.cdx.json"
    sign_all
}

# A commit with the tag of another version would be packed under a name that its tag denies. In a copy without git
# there is no tag to look at.
must_have_its_tag() {
    tags=$(as_builder git -C "$here" tag --points-at HEAD --list 'v[0-9]*' 2>/dev/null) || return 0
    if [ -z "$tags" ]; then
        say "this commit has no tag: git tag -a v$(source_version) -m $(source_version)"
    elif ! printf '%s\n' "$tags" | grep -qxF "v$(source_version)"; then
        die "Cargo.toml says $(source_version), and this commit has the tag $tags: correct one of them"
    fi
}

source_version() {
    sed -n 's/^version *= *"\(.*\)".*/\1/p' "$here/Cargo.toml" | head -n 1
}

word_image() {
    read_options '--out --sign --name --certificates' "$@"
    must_be_a_key
    build_driver
    must_have_its_tag
    name_release "${out:-$(target_folder)/release-tarball}"
    pack_image "$built"
    put "$scratch/$name.oci.tar" "$scratch/$name.oci.tar.sha256"
    say "packed: $folder/$name.oci.tar, as $image_name"
    say "to a registry: skopeo copy oci-archive:$folder/$name.oci.tar docker://$image_name"
    say "into this node's containerd: ctr -n k8s.io images import $folder/$name.oci.tar"
    sign_all
}

# --- the same bytes ------------------------------------------------------------------------------

# The moment that all files of a release have: of the commit, else the one that is given, else none.
moment() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        echo "$SOURCE_DATE_EPOCH"
    else
        as_builder git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0
    fi
}

# tar_of FOLDER WHAT...: in one order, of one owner, with one moment and with modes that no umask changes.
tar_of() {
    within=$1
    shift
    tar -C "$within" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' \
        --mtime="@$(moment)" -cf - "$@"
}

# sum FILE: beside it, as sha256sum -c reads it.
sum() {
    (cd "$(dirname -- "$1")" && sha256sum "$(basename -- "$1")" >"$(basename -- "$1").sha256")
}

# --- the drivers ---------------------------------------------------------------------------------

# The oldest C library that a release starts with: Ubuntu 18.04's. Its libudev has no symbols newer than these.
oldest_glibc=2.27 oldest_libudev=215
ziglang_version=0.13.0

# Sets `with_libudev` and `static`. The static driver needs no C library at all.
build_both_drivers() {
    prepare
    set --
    if bring_zig; then set -- "-Clinker=$linker"; fi
    say "building the driver with libudev (release); the first time this takes one to three minutes"
    building 'the driver with libudev' build_with_libudev "$@"
    with_libudev=$(target_folder)/release/disk
    needed=$(newest_version GLIBC "$with_libudev")
    say "the driver with libudev needs glibc $needed or newer"
    [ $# -eq 0 ] || must_be_old_enough "$with_libudev"
    build_driver
    static=$built
}

# bring_zig: sets `linker`, one that links against the symbols of that C library, whichever is here. It is unpacked
# beside the build.
bring_zig() {
    zig=$(target_folder)/tools/zig-$ziglang_version
    linker=$zig/cc
    ! as_builder test -x "$linker" || return 0
    say "fetching ziglang $ziglang_version, which links for glibc $oldest_glibc"
    as_builder rm -rf "$zig"
    make_venv "$zig" "ziglang==$ziglang_version" >"$scratch/output" 2>&1 </dev/null || {
        say "not to be had here: ziglang: $(tail -n 1 "$scratch/output")"
        return 1
    }
    # shellcheck disable=SC2016 # for the script
    printf '#!/bin/sh\nZIG_GLOBAL_CACHE_DIR=${0%%/*}/cache exec "${0%%/*}/bin/python" -m ziglang cc -target %s "$@"\n' \
        "$(host_triple | cut -d - -f 1)-linux-gnu.$oldest_glibc" >"$scratch/link"
    # shellcheck disable=SC2016 # for the inner shell
    as_builder sh -c 'cat >"$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"' - "$linker" <"$scratch/link"
}

# make_venv FOLDER PACKAGE
make_venv() {
    as_builder python3 -m venv "$1" || return 1
    as_builder "$1/bin/pip" install --quiet --disable-pip-version-check "$2"
}

must_be_old_enough() {
    for wanted in "GLIBC $oldest_glibc" "LIBUDEV $oldest_libudev"; do
        newest=$(newest_version "${wanted% *}" "$1")
        is_at_least "$newest" "${wanted#* }" || die "$1 needs ${wanted% *}_$newest, which ${wanted#* } does not have"
    done
}

# newest_version LIBRARY FILE: of the symbols that the file takes from it.
newest_version() {
    LC_ALL=C readelf --version-info --wide "$2" | sed -n "s/.*Name: $1_\([0-9.]*\).*/\1/p" | sort -V | tail -n 1
}

# --- the tarball ---------------------------------------------------------------------------------

# name_release FOLDER: sets `name`, and `folder` where all goes.
name_release() {
    name=incloud-disk-$(source_version)-$(host_triple)
    folder=$1
}

must_be_static() {
    can_work "$1" || die "what was built does not run here: $1"
    LC_ALL=C ldd "$1" 2>&1 | grep -Eq 'statically linked|not a dynamic' || die "what was built is not static: $1"
}

# pack_release FOLDER: in `scratch`.
pack_release() {
    must_be_static "$static"
    can_work "$with_libudev" || die "what was built does not run here: $with_libudev"
    name_release "$1"
    mkdir "$scratch/$name"
    cp "$with_libudev" "$scratch/$name/disk-libudev"
    cp "$static" install.sh README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE "$scratch/$name/"
    copy_known examples docs
    mkdir "$scratch/$name/completions" "$scratch/$name/man"
    run_driver "$static" completions bash >"$scratch/$name/completions/disk.bash"
    run_driver "$static" completions zsh >"$scratch/$name/completions/_disk"
    run_driver "$static" completions fish >"$scratch/$name/completions/disk.fish"
    run_driver "$static" man --out "$scratch/$name/man" >/dev/null
    (
        cd "$scratch/$name" || exit
        find . -type f | sed 's|^\./||' | LC_ALL=C sort | while read -r file; do sha256sum "$file"; done >"$scratch/sums"
        mv "$scratch/sums" SHA256SUMS
    )
    tar_of "$scratch" "$name" | gzip -n -9 >"$scratch/$name.tar.gz"
    sum "$scratch/$name.tar.gz"
}

# copy_known FOLDER...: what belongs to the source. What a person filled in there for a cluster of their own may be a
# credential.
copy_known() {
    if as_builder git -C "$here" ls-files -z -- "$@" >"$scratch/known" 2>/dev/null && [ -s "$scratch/known" ]; then
        tar -C "$here" --null --files-from="$scratch/known" -cf "$scratch/known.tar"
    else
        tar -C "$here" --exclude=cloud.conf --exclude=vault.yml -cf "$scratch/known.tar" "$@"
    fi
    tar -C "$scratch/$name" -xf "$scratch/known.tar"
}

# --- the image -----------------------------------------------------------------------------------

# pack_image BINARY: an archive of an OCI layout that `docker load` reads too. It holds the driver, and the
# certificates of this machine, for calls to a cloud from within.
pack_image() {
    must_be_static "$1"
    image_name=${image_name:-registry.example/incloud-disk:$(source_version)}
    layout=$scratch/layout layer=$scratch/layer
    mkdir -p "$layout/blobs/sha256" "$layer/etc/ssl/certs"
    cp "$1" "$layer/disk"
    chmod 0755 "$layer/disk"
    # Unless it is said which, the usual ones, where they are.
    certificates=${certificates:-/etc/ssl/certs/ca-certificates.crt}
    [ ! -f "$certificates" ] || cp -L "$certificates" "$layer/etc/ssl/certs/ca-certificates.crt"
    tar_of "$layer" . >"$scratch/layer.tar"
    gzip -n -9 <"$scratch/layer.tar" >"$scratch/layer.tar.gz"
    layer_blob=$(add_blob "$scratch/layer.tar.gz")
    case $(host_triple) in
        x86_64-*) machine=amd64 ;;
        aarch64-*) machine=arm64 ;;
        *) machine=$(host_triple | cut -d - -f 1) ;;
    esac
    created=$(date -u -d "@$(moment)" +%Y-%m-%dT%H:%M:%SZ)
    printf '{"architecture":"%s","os":"linux","created":"%s","config":{"Entrypoint":["/disk"],"Env":["PATH=/"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"%s","created_by":"install.sh image"}]}' \
        "$machine" "$created" "$(sha256sum <"$scratch/layer.tar" | cut -d ' ' -f 1)" "$created" >"$scratch/config"
    config_blob=$(add_blob "$scratch/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
        "$config_blob" "$(bytes_of "$scratch/config")" "$layer_blob" "$(bytes_of "$scratch/layer.tar.gz")" >"$scratch/manifest"
    manifest_blob=$(add_blob "$scratch/manifest")
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
        "$manifest_blob" "$(bytes_of "$scratch/manifest")" "$image_name" "${image_name##*:}" >"$layout/index.json"
    # What docker reads.
    printf '[{"Config":"blobs/sha256/%s","RepoTags":["%s"],"Layers":["blobs/sha256/%s"]}]' \
        "$config_blob" "$image_name" "$layer_blob" >"$layout/manifest.json"
    tar_of "$layout" blobs index.json manifest.json oci-layout >"$scratch/$name.oci.tar"
    sum "$scratch/$name.oci.tar"
}

# add_blob FILE: answers its sum.
add_blob() {
    blob=$(sha256sum <"$1" | cut -d ' ' -f 1)
    cp "$1" "$layout/blobs/sha256/$blob"
    echo "$blob"
}

bytes_of() { wc -c <"$1" | tr -d ' '; }

# --- what it is made of --------------------------------------------------------------------------

# tell_parts: every crate with its version and licence, as CycloneDX has it. It is told of a copy, for the
# tool writes beside what it reads; the copy's folder is left out of it.
tell_parts() {
    tools=$(target_folder)/tools
    if ! as_builder test -x "$tools/bin/$sbom_tool"; then
        say "building $sbom_tool, which lists what the driver is made of; once, two minutes"
        as_builder "$cargo" install --locked --quiet --version "$sbom_version" --root "$tools" "$sbom_tool" \
            >"$scratch/output" 2>&1 </dev/null || true
        if ! as_builder test -x "$tools/bin/$sbom_tool"; then
            warn "no list of the parts: $sbom_tool cannot be had: $(tail -n 1 "$scratch/output")"
            return 0
        fi
    fi
    copy=$scratch/parts
    mkdir "$copy"
    cp -R Cargo.toml Cargo.lock build.rs src tests "$copy/"
    [ -z "$builder" ] || chown -R "$builder" "$copy" "$scratch"
    (
        cd "$copy"
        as_builder env SOURCE_DATE_EPOCH="$(moment)" PATH="$(dirname "$cargo"):$PATH" "$tools/bin/$sbom_tool" cyclonedx \
            --format json --target "$(host_triple)" --override-filename parts
    ) >"$scratch/output" 2>&1 </dev/null || die "this failed: $sbom_tool: $(tail -n 3 "$scratch/output")"
    sed "s|$copy|/incloud-disk|g" "$copy/parts.json" >"$scratch/$name.cdx.json"
}

# --- signatures ----------------------------------------------------------------------------------

# By ssh-keygen, which every node has: a private key, or a public one whose other half an agent has.
must_be_a_key() {
    [ -z "$sign" ] || { have ssh-keygen && [ -r "$sign" ]; } ||
        die "--sign needs ssh-keygen and a key that can be read, and $sign is none"
}

# sign_all: what was put.
sign_all() {
    [ -n "$sign" ] || return 0
    for file in $put; do
        rm -f "$folder/$file.sig"
        ssh-keygen -q -Y sign -f "$sign" -n incloud-disk-release "$folder/$file" ||
            die "$folder/$file could not be signed with $sign"
    done
    say "signed with $sign:"
    for file in $put; do say "  $folder/$file.sig"; done
}

# put FILE...: into `folder`, by the one who builds, each whole or not at all.
put=''
put() {
    as_builder mkdir -p "$folder"
    for file in "$@"; do
        # shellcheck disable=SC2016,SC2094 # for the inner shell; they are two files
        as_builder sh -c 'cat >"$1.new" && mv "$1.new" "$1"' - "$folder/$(basename -- "$file")" <"$file"
        put="$put $(basename -- "$file")"
    done
}

# --- twice -----------------------------------------------------------------------------------------

# test_release: two builds in folders of other names and depths make the same bytes. The source is copied once,
# for a person may change it meanwhile.
test_release() {
    prepare
    first=$scratch/a second="$scratch/another/and deeper/b"
    mkdir -p "$first" "$second"
    cp -R Cargo.toml Cargo.lock build.rs rust-toolchain.toml install.sh src tests examples docs README.md \
        CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE "$first/"
    cp -R "$first/." "$second/"
    SOURCE_DATE_EPOCH=$(moment)
    INCLOUD_DISK_COMMIT=$(as_builder git -C "$here" rev-parse HEAD 2>/dev/null || echo none)
    export SOURCE_DATE_EPOCH INCLOUD_DISK_COMMIT
    # What only lists the parts need not be built twice.
    tools=$(target_folder)/tools
    for place in "$first" "$second"; do
        say "building in $place"
        mkdir -p "$place/target"
        [ ! -d "$tools" ] || cp -R "$tools" "$place/target/tools"
        [ -z "$builder" ] || chown -R "$builder" "$scratch"
        for made in release image; do
            (cd / && CARGO_TARGET_DIR="$place/target" "$place/install.sh" "$made" --out "$place/out") || return 1
        done
    done
    for file in "$first/out"/*.tar.gz "$first/out"/*.oci.tar "$first/out"/*.cdx.json; do
        sha256sum "$file"
        cmp "$file" "$second/out/$(basename -- "$file")" || return 1
    done
    for driver in "$first/target/release/disk" "$first/target/$(host_triple)/release/disk"; do
        if grep -aqF -e "$scratch" -e "${CARGO_HOME:-${HOME:-/root}/.cargo}" "$driver"; then
            warn "$driver has paths of this machine in it"
            return 1
        fi
    done
    say "two builds, the same bytes, and no path of this machine in them"
}

# Both drivers of a release through the contract suite, where the build that it tests otherwise has test seams.
test_released_drivers() {
    install_test_tools
    build_both_drivers
    INCLOUD_DISK_UNDER_TEST=$(target_folder)/under-test/disk
    export INCLOUD_DISK_UNDER_TEST CARGO_MANIFEST_DIR="$here"
    build_program test --test contract
    find_room_in_memory
    played=0
    for driver in "$with_libudev" "$static"; do
        say "ring contract, of $driver"
        as_builder install -D "$driver" "$INCLOUD_DISK_UNDER_TEST"
        # Its disks are made up, which a release does not believe.
        tell_and_keep "$scratch/tests" ring "$program" --skip identity::
        summarise "$scratch/tests" "$kept_status" || played=1
    done
    return "$played"
}
