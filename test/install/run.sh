#!/bin/bash
# What `make install` leaves under PREFIX is all that another program needs, wherever the folder is moved: examples are
# built with pkg-config and CMake against both libraries, from Python and Rust, and the library is opened and closed at run
# time under a sanitizer. It is run on the sources, so it is left out of a distributed folder.
[ -f Makefile ] || { echo "SKIP install: this folder carries no sources"; exit 0; }
: "${B:=build}"
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
unset MAKEFLAGS MFLAGS MAKELEVEL LD_LIBRARY_PATH PKG_CONFIG_PATH
pass() { echo "PASS $1"; }
fail() { echo "FAIL $1: $2"; }
# check NAME COMMAND...: its last line is the reason.
check() {
    local name=$1
    shift
    if "$@" >"$tmp/out" 2>&1; then pass "$name"; else fail "$name" "$(tail -n 1 "$tmp/out")"; fi
}

# --- what is built and where it goes ------------------------------------------------------
make -n B="$tmp/nothing" install >"$tmp/steps" 2>"$tmp/out" || fail steps "$(tail -n 1 "$tmp/out")"
grep -q -- ' -c src/' "$tmp/steps" && ! grep -qE -- ' -c (test|examples|bench)/' "$tmp/steps" && pass no_tests ||
    fail no_tests "make install compiles $(grep -oE -- ' -c (test|examples|bench)/[^ ]*' "$tmp/steps" | head -n 1)"
# The prompt of `make run` is text, whatever is in it: the recipe gets a command that prints what it is given.
prompt="it's \"one\" \$HOME \`id\` \$(id)
and two"
mkdir -p "$tmp/printing"
printf '#!/bin/sh\nshift 2\nprintf "%%s" "$*"\n' >"$tmp/printing/reprise"
chmod +x "$tmp/printing/reprise"
got=$(make -s B="$tmp/printing" MAKE=true run PROMPT="$prompt" NEEDS_SETUP= 2>"$tmp/out")
[ "$got" = "$prompt" ] && pass prompt || fail prompt "$got $(tail -n 1 "$tmp/out")"
staged=$tmp/stage/usr P="$tmp/else where"
make -s B="$B" install DESTDIR="$tmp/stage" PREFIX=/usr >"$tmp/out" 2>&1 || fail install "$(tail -n 1 "$tmp/out")"
[ -z "$(ls -A "$tmp/stage" | grep -v '^usr$')" ] && mv "$staged" "$P" && pass destdir || fail destdir "$(ls -A "$tmp/stage")"
missing=
for f in bin/reprise lib/libreprise.a lib/libreprise.so lib/libreprise.so.0 lib/pkgconfig/reprise.pc \
    lib/cmake/reprise/reprise-config.cmake include/reprise/reprise.h share/man/man1/reprise.1 \
    share/man/man3/libreprise.3 share/doc/reprise/docs/config.md share/doc/reprise/examples/mlp.c \
    share/doc/reprise/examples/bindings/reprise.py share/doc/reprise/examples/bindings/reprise.rs; do
    [ -s "$P/$f" ] || missing+=" $f"
done
[ -z "$missing" ] && pass files || fail files "not installed:$missing"
grep -rlI -e "$tmp" -e "$PWD" "$P/lib/pkgconfig" "$P/lib/cmake" "$P/share/man" "$P/bin" >"$tmp/out" &&
    fail no_paths "$(tail -n 1 "$tmp/out") names the folder it was made in" || pass no_paths
so=$P/lib/libreprise.so
readelf -d "$so" >"$tmp/elf"
grep -q 'SONAME.*\[libreprise\.so\.0\]' "$tmp/elf" && ! grep -qE 'TEXTREL|RPATH|RUNPATH' "$tmp/elf" && pass shared ||
    fail shared "no SONAME, or not position independent: $(grep -E 'SONAME|TEXTREL|PATH' "$tmp/elf")"
# What the archive is linked with is what the library uses; newer C libraries hold two of them.
unused=
for l in $(sed -n 's/^Libs.private://p' "$P/lib/pkgconfig/reprise.pc"); do
    case $l in -lpthread | -ldl) ;; *) grep -q "NEEDED.*\[lib${l#-l}\.so" "$tmp/elf" || unused+=" $l" ;; esac
done
[ -z "$unused" ] && pass needs || fail needs "linked, but not used:$unused"
bad=$(nm -D --defined-only "$so" | awk '$2 != "A" && $3 !~ /^rp_[a-z0-9_]*@@RP_0\.1$/ { print $3 }')
[ -z "$bad" ] && pass versions || fail versions "exported: ${bad//$'\n'/ }"
check command "$P/bin/reprise" help

# --- manual pages --------------------------------------------------------------------------
missing=
for flag in $("$P/bin/reprise" help cli --markdown | grep -o '^| `[^`]*--[a-z-]*' | grep -o -- '--[a-z-]*' | sort -u); do
    grep -qF -- "${flag//-/\\-}" "$P/share/man/man1/reprise.1" || missing+=" $flag"
done
for call in $(nm -D --defined-only "$so" | sed -n 's/.* \(rp_.*\)@@.*/\1/p'); do
    grep -qx "\.B $call" "$P/share/man/man3/libreprise.3" || missing+=" $call"
done
[ -z "$missing" ] && pass man_complete || fail man_complete "not on the pages:$missing"
if command -v groff >/dev/null; then
    warned=$(groff -man -Tutf8 -ww "$P"/share/man/man?/* 2>&1 >/dev/null)
    [ -z "$warned" ] && pass man_format || fail man_format "${warned%%$'\n'*}"
else
    echo "SKIP man_format: no groff here"
fi

# --- programs ------------------------------------------------------------------------------
examples="$P/share/doc/reprise/examples"
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$P/lib/pkgconfig"
    # from here on the flags hold the folder's name with its space escaped
    for kind in reprise reprise-static; do
        eval "cc -o '$tmp/$kind' '$examples/mlp.c' $(pkg-config --cflags --libs "$kind") -lm" 2>"$tmp/out" &&
            LD_LIBRARY_PATH=$P/lib check "pkg_config_$kind" "$tmp/$kind" || fail "pkg_config_$kind" "$(head -n 1 "$tmp/out")"
    done
    readelf -d "$tmp/reprise" | grep -q 'NEEDED.*libreprise\.so\.0' && ! readelf -d "$tmp/reprise-static" | grep -q libreprise &&
        pass linked || fail linked "the wrong library is linked"
    # a program that has set no callback, asked from outside
    log=$(REPRISE_LOGS=cache LD_LIBRARY_PATH=$P/lib "$tmp/reprise" 2>&1 >/dev/null)
    none=$(LD_LIBRARY_PATH=$P/lib "$tmp/reprise" 2>&1 >/dev/null)
    [[ $log == *"[cache] "* && -z $none ]] && pass logs || fail logs "asked: '${log:0:100}', not asked: '${none:0:100}'"
else
    echo "SKIP pkg_config: no pkg-config here"
fi
if command -v cmake >/dev/null; then
    mkdir -p "$tmp/cmake"
    cat >"$tmp/cmake/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.10)
project(use C)
find_package(reprise 0.1 REQUIRED)
add_executable(shared "${EXAMPLES}/mlp.c")
target_link_libraries(shared reprise::reprise m)
add_executable(static "${EXAMPLES}/mlp.c")
target_link_libraries(static reprise::static m)
TEXT
    cmake -S "$tmp/cmake" -B "$tmp/cmake/b" -DCMAKE_PREFIX_PATH="$P" -DEXAMPLES="$examples" >"$tmp/out" 2>&1 &&
        cmake --build "$tmp/cmake/b" >"$tmp/out" 2>&1 && check cmake_shared "$tmp/cmake/b/shared" &&
        check cmake_static "$tmp/cmake/b/static" || fail cmake "$(grep -i error "$tmp/out" | head -n 1)"
else
    echo "SKIP cmake: no cmake here"
fi
export LD_LIBRARY_PATH=$P/lib
if command -v python3 >/dev/null; then check python python3 "$examples/bindings/reprise.py"
else echo "SKIP python: no python3 here"; fi
if command -v rustc >/dev/null; then
    check rust_builds rustc -D warnings -L "$P/lib" "$examples/bindings/reprise.rs" -o "$tmp/rust"
    check rust "$tmp/rust"
else
    echo "SKIP rust: no rustc here"
fi

# --- opened and closed at run time -------------------------------------------------------------
cat >"$tmp/open.c" <<'TEXT'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <reprise/reprise.h>
#define GET(f) __typeof__(f) *p_##f = (__typeof__(f) *)dlsym(lib, #f)
static int use(const char *path) {
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) return puts(dlerror()), 1;
    GET(rp_graph_parse); GET(rp_compile); GET(rp_compiled_run); GET(rp_compiled_free); GET(rp_graph_free);
    GET(rp_engine_open); GET(rp_engine_close); GET(rp_log_set_channels); GET(rp_config_new); GET(rp_config_set);
    GET(rp_config_free);
    static const char text[] = "graph @f(%x: f32[4]) {\n  %y = exp %x\n  ret %y\n}\n";
    float x[4] = {0}, y[4] = {0};
    rp_buffer in = {RP_DTYPE_F32, 1, {4}, x}, out = {RP_DTYPE_F32, 1, {4}, y};
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_engine *e = NULL;
    rp_compilation_config *cfg = p_rp_config_new();
    o.model = "synthetic:tiny";
    int bad = p_rp_log_set_channels("cache", &err) || p_rp_config_set(cfg, "level=2", &err) ||
              p_rp_config_set(cfg, "threads=2", &err) || p_rp_graph_parse(text, strlen(text), &g, &err) ||
              p_rp_compile(g, cfg, &c, &err) || p_rp_compiled_run(c, &in, 1, &out, 1, &err) ||
              p_rp_engine_open(&o, &e, &err) || y[3] != 1.0f;
    if (bad) printf("%s\n", err.text);
    p_rp_engine_close(e);
    p_rp_compiled_free(c);
    p_rp_graph_free(g);
    p_rp_config_free(cfg);
    if (dlclose(lib) || dlopen(path, RTLD_NOW | RTLD_NOLOAD)) return puts("the library stays open"), 1;
    return bad;
}
int main(int argc, char **argv) { return use(argv[1]) || use(argv[argc - 1]); }
TEXT
if cc -fsanitize=address -I "$P/include" "$tmp/open.c" -o "$tmp/open" -ldl 2>"$tmp/out"; then
    ASAN_OPTIONS=detect_leaks=1 check dlopen "$tmp/open" "$so"
else
    echo "SKIP dlopen: no address sanitizer here: $(head -n 1 "$tmp/out")"
fi

# --- and taken away --------------------------------------------------------------------------
touch "$P/bin/other"
make -s uninstall PREFIX="$P" >"$tmp/out" 2>&1
left=$(find "$P" -type f -o -type l)
[ "$left" = "$P/bin/other" ] && pass uninstall || fail uninstall "left: ${left//$'\n'/ }; $(tail -n 1 "$tmp/out")"
