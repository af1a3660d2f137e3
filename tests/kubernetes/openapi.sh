#!/bin/bash
# Generates what kube-apiserver says of its types: openapi.sh GO, in the source's folder.
#
# Debian's source comes without the file that the project's own build makes first.
set -euo pipefail

go=$1
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
nice -n 10 "$go" build -o "$tools/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
# The tag also stands on single types, such as resource.Quantity.
mapfile -t folders < <(
    grep -rl --include='*.go' '+k8s:openapi-gen=' staging/src/k8s.io pkg |
        grep -v -e '/testdata/' -e '_test\.go$' -e '^pkg/generated/' | xargs -n 1 dirname | sort -u
)
packages=$(printf '%s\n' "${folders[@]}" |
    sed -e 's|^staging/src/|k8s.io/kubernetes/vendor/|' -e 's|^pkg/|k8s.io/kubernetes/pkg/|' | paste -sd ,)
: >"$tools/header"
nice -n 10 "$tools/openapi-gen" --go-header-file "$tools/header" --input-dirs "$packages" \
    --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --output-file-base zz_generated.openapi --report-filename "$tools/violations"
# It writes into GOPATH, which is this folder by a link.
ls -l pkg/generated/openapi/zz_generated.openapi.go
