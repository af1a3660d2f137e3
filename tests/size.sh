#!/bin/bash
# shellcheck disable=SC2016 # for awk
# How large each crate is: `./install.sh test size`.
#
# Code is what is neither blank, comment nor test. A test is a file that only a test build has, and what follows
# `mod tests` in the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly crates=(model failpoints ports host udev cloud driver shield node front)

# sources CRATE: its files without those of tests.
sources() {
    if [[ $1 == front ]]; then
        # The root package: what lies in no folder of a crate.
        find src -name '*.rs' | grep -vE "^src/($(IFS='|' && echo "${crates[*]}"))/"
    else
        find "src/$1" -name '*.rs'
    fi | grep -vE '(^|/)(tests|fakes)(/|\.rs$)|_tests\.rs$' | sort
}

printf '%-10s %6s %6s %6s %9s  %s\n' crate code files types functions 'largest type, its fields'
for crate in "${crates[@]}" all; do
    if [[ $crate == all ]]; then
        for one in "${crates[@]}"; do sources "$one"; done
    else
        sources "$crate"
    fi | xargs awk -v crate="$crate" '
        FNR == 1 { files++; is_test = in_type = 0 }
        /^#\[cfg\((any\()?test/ { is_gated = 1; next }
        is_gated && /^(pub(\([a-z: ]+\))? )?mod [a-z_]+ \{/ { is_test = 1 }
        { is_gated = 0 }
        is_test || /^ *$/ || /^ *\/\// { next }
        { code++ }
        /^ *(pub(\([a-z_: ]+\))? )?(const |async |unsafe |extern "C" )*fn / { functions++ }
        /^ *(pub(\([a-z_: ]+\))? )?(struct|enum|trait|union) / {
            types++
            match($0, /(struct|enum|trait|union) +[A-Za-z0-9_]+/)
            name = substr($0, RSTART, RLENGTH)
            in_type = /^ *(pub(\([a-z_: ]+\))? )?struct .*\{ *$/
            indent = match($0, /[^ ]/) - 1
            fields = 0
            next
        }
        in_type && match($0, /[^ ]/) - 1 == indent && /^ *\}/ {
            in_type = 0
            if (fields > most) { most = fields; largest = name }
        }
        in_type && /^ *(pub(\([a-z_: ]+\))? )?[a-z_0-9]+: / { fields++ }
        END { printf "%-10s %6d %6d %6d %9d  %s, %d\n", crate, code, files, types, functions, largest, most }'
done
printf '\n%s lines with pub(in, %s lines of tests in src, %s in tests\n' \
    "$(grep -rh 'pub(in ' src --include='*.rs' | wc -l)" \
    "$(($(find src -name '*.rs' -exec cat {} + | wc -l) - $(for one in "${crates[@]}"; do sources "$one"; done |
        xargs awk 'FNR == 1 { is_test = 0 } /^mod tests \{/ { is_test = 1 } !is_test { n++ } END { print n }')))" \
    "$(find tests -name '*.rs' -o -name '*.sh' -o -name '*.py' | grep -v /target/ | xargs cat | wc -l)"
