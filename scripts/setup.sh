#!/bin/sh
# setup.sh [test] [check|fuzz|lint]: installs what is missing of the Debian packages that building and testing need, for
# test a browser, too, for the others what they are done with. Does nothing, quickly, when all is there.
set -eu
packages="gcc make binutils libc6-dev libjansson-dev libpcre2-dev libxxhash-dev
    libzstd-dev libcmocka-dev unzip ca-certificates strace bsdutils patch g++"
browser= # what could not be had is not asked for again
for goal in "$@"; do
    case $goal in
    test) [ -e build/no-browser ] || browser=chromium-headless-shell ;;
    *) packages="$packages clang-14 clang-format-14 clang-tidy-14 llvm-14" ;;
    esac
done
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    if command -v $name >/dev/null; then browser=; fi
done
command -v python3 >/dev/null || packages="$packages python3"
command -v pip >/dev/null || command -v pip3 >/dev/null || packages="$packages python3-pip"

if ! command -v dpkg-query >/dev/null; then
    echo "setup: no dpkg here; make sure that these (or their like) are installed:" $packages >&2
    exit 0
fi
missing=
have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null || true)
for p in $packages; do
    case "
$have
" in *"
$p installed
"*) ;; *) missing="$missing $p" ;; esac
done
[ -z "$missing$browser" ] && exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        [ -n "$missing" ] || exit 0 # without a browser one test is skipped
        echo "setup: missing packages, and neither root nor sudo to install them; run as root:" \
            "apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
    [ -n "$missing" ] || as_root="sudo -n" # nobody is asked for a password for it
fi
echo "setup: installing$missing${browser:+ $browser}" >&2
export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing" ]; then
    $as_root apt-get update -q >&2
    $as_root apt-get install -q -y --no-install-recommends $missing >&2
fi
[ -z "$browser" ] && exit 0
# One test looks at a page with it, and says so where there is none.
{ [ -n "$missing" ] || $as_root apt-get update -q >&2; } &&
    $as_root apt-get install -q -y --no-install-recommends "$browser" >&2 ||
    { (mkdir -p build && : >build/no-browser) 2>/dev/null || true; echo "setup: no $browser here; a test is skipped" >&2; }
