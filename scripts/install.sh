#!/bin/sh
# install.sh BUILD VERSION SOVERSION PREFIX: command, libraries, headers, pkg-config and CMake files, manual pages,
# docs and examples. What is written names no folder, so PREFIX may be moved afterwards.
set -eu
cd "$(dirname "$0")/.."
B=$1 version=$2 so=$3 prefix=$4
needs="-ljansson -lpcre2-8 -lxxhash -lzstd -lpthread -ldl -lm"
doc=$prefix/share/doc/reprise
install -d "$prefix/bin" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/reprise" "$prefix/include/reprise" \
    "$prefix/share/man/man1" "$prefix/share/man/man3" "$doc/docs" "$doc/examples/bindings"
install -m 755 "$B/reprise" "$prefix/bin/"
install -m 644 "$B/libreprise.a" "$prefix/lib/"
install -m 755 "$B/libreprise.so.$so" "$prefix/lib/libreprise.so.$version"
ln -sf "libreprise.so.$version" "$prefix/lib/libreprise.so.$so"
ln -sf "libreprise.so.$so" "$prefix/lib/libreprise.so"
install -m 644 include/reprise/*.h "$prefix/include/reprise/"
scripts/man.sh 1 "$version" > "$prefix/share/man/man1/reprise.1"
scripts/man.sh 3 "$version" > "$prefix/share/man/man3/libreprise.3"
install -m 644 README.md ARCHITECTURE.md LICENSE "$doc/"
install -m 644 docs/*.md "$doc/docs/"
install -m 644 examples/*.c "$doc/examples/"
install -m 644 examples/bindings/* "$doc/examples/bindings/"

# reprise: the shared library; reprise-static: the archive and what it needs.
pkg_config() {
    printf '%s\n' 'prefix=${pcfiledir}/../..' 'libdir=${prefix}/lib' "Name: $1" \
        'Description: traces, compiles, captures and replays transformers written in C' \
        "Version: $version" 'Cflags: -I${prefix}/include' "$2"
}
pkg_config reprise "Libs: -L\${libdir} -lreprise
Libs.private: $needs" > "$prefix/lib/pkgconfig/reprise.pc"
pkg_config reprise-static "Libs: -L\${libdir} -l:libreprise.a $needs" > "$prefix/lib/pkgconfig/reprise-static.pc"

# find_package(reprise) gives reprise::reprise and reprise::static.
cat > "$prefix/lib/cmake/reprise/reprise-config.cmake" <<TEXT
get_filename_component(_reprise_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET reprise::reprise)
  add_library(reprise::reprise SHARED IMPORTED)
  set_target_properties(reprise::reprise PROPERTIES
    IMPORTED_LOCATION "\${_reprise_prefix}/lib/libreprise.so.$version"
    IMPORTED_SONAME "libreprise.so.$so"
    INTERFACE_INCLUDE_DIRECTORIES "\${_reprise_prefix}/include")
  add_library(reprise::static STATIC IMPORTED)
  set_target_properties(reprise::static PROPERTIES
    IMPORTED_LOCATION "\${_reprise_prefix}/lib/libreprise.a"
    INTERFACE_INCLUDE_DIRECTORIES "\${_reprise_prefix}/include"
    INTERFACE_LINK_LIBRARIES "$(echo "$needs" | sed 's/-l//g; s/ /;/g')")
endif()
unset(_reprise_prefix)
TEXT
cat > "$prefix/lib/cmake/reprise/reprise-config-version.cmake" <<TEXT
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION_MAJOR EQUAL ${version%%.*} AND NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
TEXT
# The loader's list of folders is a cache of the machine: renewed only when this is one of them.
if [ "$(id -u)" = 0 ] && ldconfig -vNX 2>/dev/null | grep -q "^$prefix/lib:"; then ldconfig; fi
