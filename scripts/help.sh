#!/bin/sh
# The targets, for `make help`.
cat <<'TEXT'
make                 the libraries and the command: build/libreprise.a, build/libreprise.so.0, build/reprise
make run             fetches a small real model and writes text with it   (PROMPT="...")
make test            every test that needs no GPU; ends with "N passed, N failed, N skipped"
make test-quick      the programs among them that are not slow, without the model
make test-gpu        tests for a machine with a GPU
make check           address, undefined and thread sanitizers, lint, layers, headers alone, exported symbols
make bench           measures against peers: bench-cpu, bench-gpu, bench-ops
make fuzz            libFuzzer over each test/fuzz/*.c                     (FUZZ_SECONDS=60)
make cover           line coverage per room
make mutants         plants the bugs of test/mutants/ in a copy, one after the other; each must be caught  (ONLY=pattern)
make fmt lint        formats; format check, clang-tidy and our own checks
make dist            build/dist/: the command, its libraries and tests, for another machine; CONFIG=carry: small
make install         command, libraries, headers, pkg-config, CMake, manual pages, docs, examples   (PREFIX=/usr/local DESTDIR=)
make uninstall       removes that                                           (PREFIX, DESTDIR as then)
make compile_commands  compile_commands.json for editors
make clean

CONFIG=release|debug|asan|tsan|cover|fuzz|carry   ROOMS="base ir"   ONLY=pattern   BLESS=1   THOROUGH=1   WERROR=1
TEXT
