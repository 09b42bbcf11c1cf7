#!/bin/sh
# dist.sh BUILD VERSION: build/dist/reprise-VERSION, a folder that runs on another Linux machine of the
# same processor family: the command, the tests, the measured engine, and the libraries they need. The C library comes along
# apart and is used only where the machine's own is too old for these programs.
set -eu
cd "$(dirname "$0")/.."
B=$1 out=$1/dist/reprise-$2
rm -rf "$out"
mkdir -p "$out/lib" "$out/libc" "$out/programs" "$out/scripts"
programs=$(find "$B/test" "$B/examples" "$B/reprise" "$B/bench/engine" "$B/bench/gpu" "$B/bench/ops" -type f -perm -u+x 2>/dev/null || true)
for p in $programs; do
    real=$(echo "${p#"$B"/}" | tr / -) to=$out/${p%/*}
    mkdir -p "$to"
    cp "$p" "$out/programs/$real" # finds its libraries through its rpath, ../lib
    cat > "$out/$p" <<TEXT
#!/bin/sh
top=\$(cd "\$(dirname "\$0")/$(realpath --relative-to="$to" "$out" 2>/dev/null)" && pwd)
ld=ld-linux-x86-64.so.2
if [ -e /lib64/\$ld ] && ! /lib64/\$ld --list "\$top/programs/$real" 2>&1 | grep -q 'not found'; then
    exec "\$top/programs/$real" "\$@"
fi
exec "\$top/libc/\$ld" --library-path "\$top/lib:\$top/libc" "\$top/programs/$real" "\$@"
TEXT
    chmod +x "$out/$p"
done
ldd $programs | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r l; do
    case ${l##*/} in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so*) cp -L "$l" "$out/libc/" ;;
    *) cp -L "$l" "$out/lib/" ;;
    esac
done
mkdir -p "$out/$B/emu"
cp "$B/emu/libcuda.so.1" "$out/$B/emu/"
cp -L /lib64/ld-linux-x86-64.so.2 "$out/libc/"
# data and runners; the sources stay here, but for those whose lines tests want to be told
(find test bench docs -type f ! -name '*.c' ! -name '*.h' && echo scripts/fetch-model.sh test/unit/jit_breaks.c test/unit/jit_unlowered.c | tr ' ' '\n') |
    tar cf - -T - | tar xf - -C "$out"
printf 'test/run.sh %s runs the tests, test/run.sh %s gpu those for a GPU.\n' "$B" "$B" > "$out/README"
echo "$out"
