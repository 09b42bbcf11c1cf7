# reprise: one non-recursive Makefile. `make help` lists the targets.
#
# CONFIG    release (default, in build/), debug, asan, tsan, cover, fuzz (in build/$(CONFIG)/); carry: without what debuggers want, so that make dist is small
#           (tests share a library in carry and asan)
# WERROR=1  warnings are errors (make check sets it); V=1 prints whole commands
# BLESS=1   file tests rewrite their expectations; THOROUGH=1: repeat more often what is alike (make check sets it)
# -jN       N jobs at a time; as many as there are processors unless it is said
#
# A new .c file under src/, tools/, test/*/ or examples/ is picked up by the wildcards below.

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
CONFIG ?= release
B := $(if $(filter release,$(CONFIG)),build,build/$(CONFIG))
CC := $(if $(filter fuzz,$(CONFIG)),clang,$(if $(filter default,$(origin CC)),gcc,$(CC)))
PREFIX ?= /usr/local
VERSION := 0.1.0
SOVERSION := 0
FUZZ_SECONDS ?= 60

# ---- sources ------------------------------------------------------------------------------------
# ROOMS="base ir" builds those rooms alone.
ROOMS ?= *
ALL_SRC  := $(sort $(wildcard $(foreach r,$(ROOMS),src/$(r)/*.c src/$(r)/*/*.c)))
CMD_SRC  := $(filter src/serve/%,$(ALL_SRC)) $(sort $(wildcard tools/*.c))
LIB_SRC  := $(filter-out $(CMD_SRC),$(ALL_SRC))
# Files that are carried inside the library as rp_embed_<name>, see src/base/embed.h.
EMBED    := $(sort $(wildcard src/*/embed/* src/*/*.rules))
# Sources that decide plans and code, whole rooms so that no new file is forgotten: their hash is part of every such key.
# Rooms that are not here act through values that are in a key (config), or on what is made (hal, device, graph, cache).
KEY_SRC  := $(sort $(wildcard include/reprise/*.h src/base/str.* src/base/number.* src/base/map.* src/base/hash.* src/base/gcd.* src/engine/plans.* src/engine/decode*.* \
              $(foreach r,ir model trace split pass rewrite kir sched gen lower target plan compile,src/$(r)/*.* src/$(r)/*/*.*)))
# Sources that decide the bytes of packed weights; where each matrix lies is in their key as text.
PACK_SRC := $(sort $(wildcard src/gen/pack.* src/plan/pack.* src/engine/packed.* src/ir/block.c src/ir/dtype.c \
              src/model/gguf.c src/model/synth*.*))
SUPPORT  := $(sort $(wildcard test/support/*.c))
FUZZ_SRC := $(sort $(wildcard test/fuzz/*.c))
TEST_SRC := $(filter-out $(SUPPORT) $(FUZZ_SRC),$(sort $(wildcard test/*/*.c)))
EX_SRC   := $(sort $(wildcard examples/*.c))
BENCH_SRC := $(sort $(wildcard bench/*.c))
FORMATTED := $(filter-out $(EMBED),$(sort $(wildcard include/*/*.h src/*/*.[ch] src/*/*/*.[ch] \
               tools/*.[ch] test/*/*.[ch] test/fuzz/replay/*.c examples/*.c bench/*.[ch] bench/gpu/*.[ch] bench/ops/*.[ch])))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/obj/%.o) $(B)/obj/embed.o
SHARED := $(B)/libreprise.so.$(SOVERSION)
TESTS := $(TEST_SRC:%.c=$(B)/%)
FUZZ_REPLAY := $(FUZZ_SRC:%.c=$(B)/%)
EXAMPLES := $(EX_SRC:%.c=$(B)/%)
BENCHES := $(BENCH_SRC:%.c=$(B)/%)
MICROS := $(patsubst %.c,$(B)/%,$(sort $(wildcard bench/micro/*.c)))
GPU_BENCH := $(B)/bench/gpu/step
OPS_BENCH := $(B)/bench/ops/ops
# A GPU for tests where there is none (test/support/emu).
EMU := $(B)/emu/libcuda.so.1
# A compiler proper that remembers, for all tests of a run (test/support/cc).
CC1 := $(B)/cc/cc1

# ---- flags --------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
        -Wpointer-arith -Wwrite-strings -Wimplicit-fallthrough $(if $(WERROR),-Werror)
SAN_asan  := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SAN_tsan  := -fsanitize=thread
SAN_cover := --coverage
SAN_fuzz  := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
OPT_release := -O2 -DNDEBUG
OPT_debug   := -Og
# Lines and functions do for a backtrace; variables and types are for debuggers, and most of what is written and linked.
DEBUG_debug := -g
# Tests are compiled once and run once; without what debuggers want they link in half the time, and with gold, where it is, in
# half of that. Those of one unit hardly compute; compiling them is most of what they take
# (but for templates, which are compiled into gen_*).
TEST_release := -O1 -g0
UNIT_release := -O0
OPT_carry := -O2 -DNDEBUG -g0
TEST_carry := -O1
UNIT_carry := -O0
UNIT_asan := -O0
# Where the library is large, in each test, tests share it: they link in a tenth of the time, and all are a twentieth as large.
SHARES := $(filter carry asan,$(CONFIG))
LINK_release = -Wl,-S $(GOLD)
LINK_carry = -Wl,-s $(GOLD)
LINK_asan = $(GOLD)
LINK_tsan = $(GOLD)
# Asked when something is linked: before the set-up there may be none.
GOLD = $(shell command -v ld.gold >/dev/null && echo -fuse-ld=gold)
# Results are defined operation by operation, so the compiler may never contract a*b+c.
CFLAGS += -std=c11 $(or $(DEBUG_$(CONFIG)),-g1) $(or $(OPT_$(CONFIG)),-O1) $(SAN_$(CONFIG)) $(WARN) -ffp-contract=off \
          -fPIC -fvisibility=$(if $(SHARES),default,hidden) -pthread
CPPFLAGS += -D_GNU_SOURCE -DRP_VERSION='"$(VERSION)"' -Iinclude -Isrc -I.
LDFLAGS += $(SAN_$(CONFIG)) -pthread -Wl,--as-needed -Wl,-rpath,'$$ORIGIN/../lib$(if $(SHARES),:$$ORIGIN/../../lib)'
LIBS := -ljansson -lpcre2-8 -lxxhash -lzstd -ldl -lm
CMD_LIBS := $(if $(wildcard src/serve/*.c),-lmicrohttpd)

# ---- build --------------------------------------------------------------------------------------
.DELETE_ON_ERROR:
.SECONDARY:
Q = $(if $(V),,@echo "  $@";)
.PHONY: all run test test-quick check test-gpu bench bench-cpu bench-gpu bench-ops bench-front bench-micro fuzz fmt lint cover mutants dist \
        install uninstall clean help compile_commands setup programs FORCE

all: $(B)/libreprise.a $(SHARED) $(if $(wildcard tools/main.c),$(B)/reprise)

# Goals that promise to work on a bare machine install what is missing before anything compiles.
NEEDS_SETUP := $(if $(filter run test test-quick check fuzz lint,$(MAKECMDGOALS)),setup)
setup:
	@scripts/setup.sh $(filter test check fuzz lint,$(MAKECMDGOALS)) >&2

# Declarations of elementwise ops follow their table.
OPS_HEADER := include/reprise/elementwise.h
$(OPS_HEADER): src/ir/ops.def scripts/ops-header.sh
	@scripts/ops-header.sh check >/dev/null || scripts/ops-header.sh
	@touch -c $@ 2>/dev/null || true

$(B)/obj/%.o: %.c Makefile | $(NEEDS_SETUP) $(OPS_HEADER)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(if $(filter test/% bench/%,$<),-Itest) $(CFLAGS) $(if $(filter test/%,$<),$(TEST_$(CONFIG))) $(if $(filter test/unit/%,$(filter-out test/unit/gen_%,$<)),$(UNIT_$(CONFIG))) -MMD -MP -c $< -o $@

$(B)/gen/embed.S: FORCE | $(NEEDS_SETUP)
	@scripts/embed.sh $@ "$(EMBED)" "$(KEY_SRC)" "$(PACK_SRC)"
$(B)/obj/embed.o: $(B)/gen/embed.S $(EMBED)
	$(Q)$(if $(SHARES),grep -v '\.hidden' $< | $(CC) -x assembler-with-cpp -c -,$(CC) -c $<) -o $@

# What the command alone carries.
$(B)/gen/page.S: FORCE | $(NEEDS_SETUP)
	@scripts/embed.sh $@ tools/page.css
$(B)/obj/page.o: $(B)/gen/page.S tools/page.css
	$(Q)$(CC) -c $< -o $@

# For tests: every object as it is, hidden names included.
$(B)/libreprise-internal.a: $(LIB_OBJ) $(patsubst %.c,$(B)/obj/%.o,$(filter src/serve/%,$(CMD_SRC)))
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

# The same and what tests share, for those that travel together.
$(B)/lib/libreprise-internal.so: $(B)/libreprise-internal.a $(SUPPORT:%.c=$(B)/obj/%.o) test/support/replaced.list
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(@F) $(LINK_$(CONFIG)) -Wl,-Bsymbolic -Wl,--dynamic-list=test/support/replaced.list -Wl,--whole-archive $(filter-out %.list,$^) -Wl,--no-whole-archive -lcmocka $(LIBS) $(CMD_LIBS) -o $@

# For users: one object in which only the rp_ names are left.
$(B)/libreprise.a: $(LIB_OBJ)
	@$(LD) -r -o $(B)/reprise.o $^
	@objcopy --localize-hidden $(B)/reprise.o
	@rm -f $@
	$(Q)$(AR) rcs $@ $(B)/reprise.o

# The same as a shared library, whose names carry the version that brought them.
$(SHARED): $(LIB_OBJ) src/api/libreprise.map
	$(Q)$(CC) -shared $(SAN_$(CONFIG)) -pthread -Wl,-soname,$(@F) -Wl,-z,defs -Wl,--as-needed \
	    -Wl,--version-script=src/api/libreprise.map $(LIB_OBJ) $(LIBS) -o $@

# The command and the examples link the users' library: the public names must suffice.
$(B)/reprise: $(CMD_SRC:%.c=$(B)/obj/%.o) $(B)/obj/page.o $(B)/libreprise.a
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) $(CMD_LIBS) -o $@
$(EXAMPLES) $(BENCHES): $(B)/%: $(B)/obj/%.o $(B)/libreprise.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) -o $@
$(BENCHES): $(B)/obj/tools/rate.o
# Parts measured alone reach inside the library.
$(MICROS): $(B)/bench/micro/%: $(B)/obj/bench/micro/%.o $(B)/libreprise-internal.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) $(CMD_LIBS) -o $@
$(B)/obj/bench/gpu/model.o: bench/gpu/model.cu
$(GPU_BENCH): $(B)/obj/bench/gpu/step.o $(B)/obj/bench/gpu/model.o $(B)/obj/bench/gpu/template.o $(B)/libreprise-internal.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) -o $@
$(OPS_BENCH): $(patsubst %.c,$(B)/obj/%.o,$(wildcard bench/ops/*.c)) $(B)/libreprise-internal.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(LIBS) -o $@
# Of what tests share each takes what it calls, which links in two thirds of the time, and all take what nobody calls.
UNCALLED := $(shell grep -lE '(con|de)structor' $(SUPPORT))
$(B)/obj/test/support.a: $(patsubst %.c,$(B)/obj/%.o,$(filter-out $(UNCALLED),$(SUPPORT)))
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
INTERNAL := $(if $(SHARES),$(B)/lib/libreprise-internal.so,$(UNCALLED:%.c=$(B)/obj/%.o) $(B)/obj/test/support.a $(B)/libreprise-internal.a)
$(TESTS): $(B)/test/%: $(B)/obj/test/%.o $(INTERNAL)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LINK_$(CONFIG)) $^ -lcmocka $(LIBS) $(CMD_LIBS) -o $@
# A fuzz target is a program that replays its corpus, except under CONFIG=fuzz.
$(FUZZ_REPLAY): $(B)/test/fuzz/%: $(B)/obj/test/fuzz/%.o $(B)/libreprise-internal.a \
                $(if $(filter fuzz,$(CONFIG)),,$(B)/obj/test/fuzz/replay/main.o)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(if $(filter fuzz,$(CONFIG)),-fsanitize=fuzzer) $(LINK_$(CONFIG)) $^ $(LIBS) $(CMD_LIBS) -o $@

EMU_SRC := test/support/emu/emu.c test/support/emu/stream.c
EMU_ACCESS := $(B)/emu/access.o
$(EMU_ACCESS): test/support/emu/access.c | $(NEEDS_SETUP)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 -g0 -fPIC -fvisibility=hidden $(WARN) -c $< -o $@
$(EMU): $(EMU_SRC) $(EMU_ACCESS) test/support/emu/emu.h test/support/emu/kernel.h src/hal/cuda/runs.cu src/hal/cuda/api.h src/hal/cuda/api.def | $(NEEDS_SETUP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 -O2 -ffp-contract=off -fno-tree-vectorize -fPIC -shared -pthread -Wl,-soname,$(@F) -DEMU_ACCESS_O='"$(EMU_ACCESS)"' $(EMU_SRC) -ldl -o $@

$(CC1): test/support/cc/cc1.c | $(NEEDS_SETUP)
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=c11 -O1 $(WARN) $< -lxxhash -o $@

programs: all $(TESTS) $(FUZZ_REPLAY) $(EXAMPLES) $(BENCHES) $(OPS_BENCH) $(EMU) $(CC1)
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

# ---- use ----------------------------------------------------------------------------------------
PROMPT ?= Give me one short sentence about the sea.
# Standard output is the text alone.
run: export RUN_PROMPT = $(value PROMPT)
run: $(NEEDS_SETUP)
	@$(MAKE) --no-print-directory all >&2
	@$(B)/reprise run smollm2 "$$RUN_PROMPT"

test test-quick test-gpu: programs
	@test/run.sh $(B) $(@:test-%=%)
# The programs in which threads meet.
THREADED := $(addprefix build/tsan/test/unit/,base_alloc base_file base_guard base_log hal_pool hal_device hal_capture \
              api_threads device_api autograph_cuda autograph_limits autograph_outside autograph_safety autograph_storm \
              backend_handles backend_pieces cache_store engine_shared engine_shared_cuda graph_finish jit_break_threads jit_graphs \
              jit_guards jit_views model_tokenizer plan_barriers)
check: lint
	$(MAKE) CONFIG=asan WERROR=1 programs
	@TIMEOUT=900 test/run.sh build/asan programs
	$(MAKE) CONFIG=tsan WERROR=1 $(THREADED) build/tsan/emu/libcuda.so.1
	@TIMEOUT=600 test/run.sh build/tsan programs
bench-gpu: $(GPU_BENCH)
bench-ops: $(OPS_BENCH)
bench bench-cpu bench-gpu bench-ops bench-front: all $(BENCHES)
	@bench/run.sh $(or $(filter cpu gpu ops front,$(@:bench-%=%)),cpu) $(B)
bench-micro: $(MICROS)
	@for m in $^; do $$m || exit 1; done
fuzz:
	$(MAKE) CONFIG=fuzz $(FUZZ_SRC:%.c=build/fuzz/%)
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)
# ONLY=pattern selects patches.
mutants: all
	@MAKE="$(MAKE)" CC="$(CC)" scripts/mutants.sh $(B) "$(ONLY)"
cover:
	$(MAKE) CONFIG=cover programs
	@test/run.sh build/cover programs
	@scripts/cover.sh build/cover
fmt:
	clang-format-14 -i $(FORMATTED)
# One stamp per file, so that only what changed is looked at again. The analyzer follows each function through so many states; its own
# bound of 225000 takes three times as long.
TIDY_NODES ?= 50000
TIDY := $(patsubst %.c,$(B)/tidy/%.ok,$(sort $(ALL_SRC) $(CMD_SRC)))
$(B)/tidy/%.ok: %.c .clang-tidy | $(NEEDS_SETUP)
	@mkdir -p $(@D)
	@clang-tidy-14 --quiet $< -- $(CPPFLAGS) -std=c11 -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES) 2>/dev/null && touch $@
lint: $(TIDY) $(B)/libreprise.a $(SHARED)
	clang-format-14 --dry-run -Werror $(FORMATTED)
	@scripts/lint.sh $(B)

dist: programs $(B)/bench/engine $(GPU_BENCH) $(OPS_BENCH)
	@scripts/dist.sh $(B) $(VERSION)
install: all
	@scripts/install.sh $(B) $(VERSION) $(SOVERSION) "$(DESTDIR)$(PREFIX)"
uninstall:
	@scripts/uninstall.sh "$(DESTDIR)$(PREFIX)"
compile_commands:
	@scripts/compile-commands.sh '$(CC) $(CPPFLAGS) -Itest $(CFLAGS)' $(FORMATTED:%.h=)
clean:
	rm -rf build compile_commands.json
help:
	@scripts/help.sh
