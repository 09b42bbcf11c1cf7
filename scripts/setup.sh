#!/bin/sh
# setup.sh [check|fuzz|lint]: installs what is missing of the Debian packages that building and testing need
# (with an argument also those of the checks). Does nothing, quickly, when all is there.
set -eu
packages="gcc make binutils libc6-dev libjansson-dev libpcre2-dev libxxhash-dev
    libzstd-dev libcmocka-dev unzip ca-certificates strace bsdutils patch g++"
[ $# -gt 0 ] && packages="$packages clang-14 clang-format-14 clang-tidy-14 llvm-14"
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
[ -z "$missing" ] && exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: missing packages, and neither root nor sudo to install them; run as root:" \
            "apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q >&2
$as_root apt-get install -q -y --no-install-recommends $missing >&2
