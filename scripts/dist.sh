#!/bin/sh
# dist.sh BUILD VERSION: build/dist/reprise-VERSION, a folder that runs on another Linux machine of the
# same processor family: the command, the tests, and the libraries they need, the C library apart
# (used only where the machine's own is older).
set -eu
cd "$(dirname "$0")/.."
B=$1 out=$1/dist/reprise-$2
rm -rf "$out"
mkdir -p "$out/lib" "$out/libc" "$out/scripts"
programs=$(find "$B/test" "$B/examples" "$B/reprise" -type f -perm -u+x 2>/dev/null)
for p in $programs; do
    to=$out/${p%/*}
    mkdir -p "$to/real"
    cp "$p" "$to/real/"
    up=$(realpath --relative-to="$to" "$out")
    # chosen when started: the machine's loader when it is new enough, else the one that came along
    cat > "$to/${p##*/}" <<TEXT
#!/bin/sh
here=\$(cd "\$(dirname "\$0")" && pwd)
if LD_LIBRARY_PATH=\$here/$up/lib "\$here/$up/lib/probe" 2>/dev/null; then
    LD_LIBRARY_PATH=\$here/$up/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/real/${p##*/}" "\$@"
fi
exec "\$here/$up/libc/ld-linux-x86-64.so.2" --library-path "\$here/$up/lib:\$here/$up/libc:\${LD_LIBRARY_PATH-}" "\$here/real/${p##*/}" "\$@"
TEXT
    chmod +x "$to/${p##*/}"
done
echo 'int main(void) { return 0; }' | cc -x c - -o "$out/lib/probe"
ldd $programs | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r l; do
    case ${l##*/} in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so*) cp -L "$l" "$out/libc/" ;;
    *) cp -L "$l" "$out/lib/" ;;
    esac
done
cp -L /lib64/ld-linux-x86-64.so.2 "$out/libc/"
# data and runners only: sources stay here
(find test bench -type f ! -name '*.c' ! -name '*.h'; echo scripts/fetch-model.sh) | cpio --quiet -pdm "$out" 2>/dev/null ||
    (find test bench -type f ! -name '*.c' ! -name '*.h'; echo scripts/fetch-model.sh) | tar cf - -T - | tar xf - -C "$out"
printf 'test/run.sh %s runs the tests, test/run.sh %s gpu those for a GPU.\n' "$B" "$B" > "$out/README"
echo "$out"
