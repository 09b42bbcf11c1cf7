#!/bin/bash
# What the public headers let a program say about sizes and what they refuse, in C and in C++: a size is a type of its own, so
# arithmetic, comparisons and conditions on one do not compile, while the calls take sizes and integers alike.
tmp=${REPRISE_TEST_TMP:-$(mktemp -d)}
CC=${CC:-gcc} CXX=${CXX:-g++}
pass() { echo "PASS $1"; }
fail() { echo "FAIL $1: $2"; }

# compiles LANGUAGE STATEMENT
compiles() {
    local cc="$CC -x c -std=c11"
    [ "$1" = c++ ] && cc="$CXX -x c++ -std=c++11"
    printf '%s\n' '#include <reprise/reprise.h>' 'int use(rp_graph *g, rp_dim T, rp_tensor x);' \
        'int use(rp_graph *g, rp_dim T, rp_tensor x) {' '(void)g, (void)T, (void)x;' "$2" 'return 0;' '}' >"$tmp/use.c"
    $cc -Iinclude -Wall -Wextra -Werror -fsyntax-only "$tmp/use.c" >"$tmp/out" 2>&1
}

for lang in c c++; do
    if ! compiles $lang ''; then
        case $lang in
        c) fail "headers_$lang" "$(head -n 1 "$tmp/out")" ;;
        *) echo "SKIP headers_$lang: $CXX does not compile an empty program here" ;;
        esac
        continue
    fi
    n=0
    while IFS= read -r line; do
        n=$((n + 1))
        compiles $lang "$line" || fail "headers_${lang}_takes_$n" "'$line' does not compile: $(grep -m 1 error "$tmp/out")"
    done <<'TAKES'
rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(T, 8));
rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1u, 2l, 3ul, 4ll, 5ull, T));
unsigned char c = 1; short s = 2; rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(c, s));
rp_slice(x, 0, 0, rp_dim_sub(rp_tensor_dim(x, 0), 1));
if (rp_dim_gt(T, 8) || rp_dim_le(8, rp_dim_mul(2, T))) return 1;
if (rp_dim_compare(rp_dim_mod(T, 4), RP_DIM_EQ, 0) == RP_UNKNOWN) return 1;
rp_dim half = rp_dim_floordiv(rp_dim_add(T, T), 2); (void)half;
rp_tensor (*f)(rp_tensor, int, rp_dim, rp_dim) = rp_slice; (void)f;
rp_tensor (*f)(rp_tensor, rp_tensor) = &rp_add; f(x, (rp_neg)(x));
int a[] = {1, 0}; rp_tensor y = rp_add(rp_permute(x, a, 2), rp_softmax(rp_pad(x, 0, T, 1, 0.0), -1)); rp_topk(y, 2, &y, NULL);
T = rp_dim_add(rp_tensor_dim(rp_reshape(x, RP_SHAPE(rp_dim_mul(T, 2), 8)), 0), rp_symbol(g, "S", 1, 8));
TAKES
    [ $n -eq 11 ] && pass "headers_${lang}_takes" || fail "headers_${lang}_takes" "$n lines"
    n=0
    while IFS= read -r line; do
        n=$((n + 1))
        ! compiles $lang "$line" || fail "headers_${lang}_refuses_$n" "'$line' compiles"
    done <<'REFUSES'
rp_slice(x, 0, 0, T + 1);
rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(T * 2, 8));
if (T > 8) return 1;
if (rp_tensor_shape(x).dim[0] == 8) return 1;
if (T) return 1;
if (!T) return 1;
while (T-- > 0) return 1;
long long n = T; (void)n;
for (int i = 0; i < T; i++) return 1;
switch (T) { default: return 1; }
rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2.5, 8));
rp_slice(x, 0, 0, 1.0f);
REFUSES
    [ $n -eq 12 ] && pass "headers_${lang}_refuses" || fail "headers_${lang}_refuses" "$n lines"
done

# Every call that makes a tensor tells its line: it has a macro of its name.
dumb=
for f in $(sed -n 's/^RP_API rp_tensor \(rp_[a-z0-9_]*\)(.*/\1/p' include/reprise/*.h); do
    [ $f = rp_at ] || grep -q "^#define $f(" include/reprise/*.h || dumb+=" $f"
done
[ -z "$dumb" ] && pass headers_sites || fail headers_sites "no macro with RP_AT for$dumb"
