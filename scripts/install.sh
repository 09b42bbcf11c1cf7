#!/bin/sh
# install.sh BUILD VERSION PREFIX: command, static library, headers and a pkg-config file.
set -eu
cd "$(dirname "$0")/.."
B=$1 version=$2 prefix=$3
install -d "$prefix/bin" "$prefix/lib/pkgconfig" "$prefix/include/reprise"
[ -f "$B/reprise" ] && install -m 755 "$B/reprise" "$prefix/bin/"
install -m 644 "$B/libreprise.a" "$prefix/lib/"
install -m 644 include/reprise/*.h "$prefix/include/reprise/"
cat > "$prefix/lib/pkgconfig/reprise.pc" <<TEXT
prefix=\${pcfiledir}/../..
Name: reprise
Description: traces, compiles, captures and replays transformers written in C
Version: $version
Libs: -L\${prefix}/lib -lreprise -ljansson -lpcre2-8 -lutf8proc -lxxhash -lzstd -lpthread -ldl -lm
Cflags: -I\${prefix}/include
TEXT
