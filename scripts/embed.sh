#!/bin/sh
# embed.sh OUT "FILES" ["KEY FILES" "PACK FILES"]: writes an assembler file that carries FILES and, where they are named, the
# hashes of KEY FILES and of PACK FILES (names and bytes). OUT is touched only when its text changes.
set -eu
out=$1 files=$2
mkdir -p "$(dirname "$out")" "$(dirname "$out")/../obj"
hash() { # NAME "FILES"
    # shellcheck disable=SC2086
    h=$(sha256sum /dev/null $2 | LC_ALL=C sort | sha256sum | cut -d' ' -f1)
    printf '.hidden rp_%s\n.global rp_%s\nrp_%s: .asciz "%s"\n' "$1" "$1" "$1" "$h"
}
{
    printf '.section .note.GNU-stack,"",@progbits\n.section .rodata\n'
    if [ $# -gt 2 ]; then
        hash source_hash "$3"
        hash pack_hash "${4-}"
    fi
    for f in $files; do
        s=rp_embed_$(basename "$f" | sed 's/[^A-Za-z0-9]/_/g')
        printf '.hidden %s\n.global %s\n.balign 16\n%s: .incbin "%s"\n.L%s_end: .byte 0\n' \
            "$s" "$s" "$s" "$f" "$s"
        printf '.hidden %s_size\n.global %s_size\n.balign 8\n%s_size: .quad .L%s_end - %s\n' \
            "$s" "$s" "$s" "$s" "$s"
    done
} > "$out.new"
if cmp -s "$out.new" "$out"; then rm "$out.new"; else mv "$out.new" "$out"; fi
