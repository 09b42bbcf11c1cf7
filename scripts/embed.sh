#!/bin/sh
# embed.sh OUT "FILES" "KEY FILES": writes an assembler file that carries FILES and the hash of
# KEY FILES (names and bytes). OUT is touched only when its text changes.
set -eu
out=$1 files=$2 keys=$3
mkdir -p "$(dirname "$out")" "$(dirname "$out")/../obj"
hash=$( (for f in $keys; do sha256sum "$f"; done) | LC_ALL=C sort | sha256sum | cut -d' ' -f1)
{
    printf '.section .note.GNU-stack,"",@progbits\n.section .rodata\n'
    printf '.hidden rp_source_hash\n.global rp_source_hash\nrp_source_hash: .asciz "%s"\n' "$hash"
    for f in $files; do
        s=rp_embed_$(basename "$f" | sed 's/[^A-Za-z0-9]/_/g')
        printf '.hidden %s\n.global %s\n.balign 16\n%s: .incbin "%s"\n.L%s_end: .byte 0\n' \
            "$s" "$s" "$s" "$f" "$s"
        printf '.hidden %s_size\n.global %s_size\n.balign 8\n%s_size: .quad .L%s_end - %s\n' \
            "$s" "$s" "$s" "$s" "$s"
    done
} > "$out.new"
if cmp -s "$out.new" "$out"; then rm "$out.new"; else mv "$out.new" "$out"; fi
