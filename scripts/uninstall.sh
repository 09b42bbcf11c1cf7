#!/bin/sh
# uninstall.sh PREFIX: removes what install.sh leaves, and the folders that are this project's own.
set -eu
prefix=$1
rm -f "$prefix/bin/reprise" "$prefix"/lib/libreprise.a "$prefix"/lib/libreprise.so "$prefix"/lib/libreprise.so.[0-9]* \
    "$prefix"/lib/pkgconfig/reprise.pc "$prefix"/lib/pkgconfig/reprise-static.pc \
    "$prefix/share/man/man1/reprise.1" "$prefix/share/man/man3/libreprise.3"
rm -rf "$prefix/lib/cmake/reprise" "$prefix/include/reprise" "$prefix/share/doc/reprise"
