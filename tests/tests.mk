# What runs the tests and the checks. README.md says more.
#
#   make check      everything that can fail; make quick: the part for every few minutes
#     T=word        only the test programs, checks or tests with this in their name
#     SAN=address   (undefined, thread) with that sanitizer, in a build folder of its own
#     ONLY="unit"   only programs of these folders of tests/
#     STRICT=1      warnings are errors, and what cannot be tested here fails
#   make check-mysql  what knows MySQL, on genuine MySQL 5.6 and 9, which it fetches (MYSQLS=)
#   make mutants    plant each bug of tests/mutants in a copy of the tree: its test must catch it.
#                   make mutant M=name plants one. 13 are in make check
#   make counted    every call with every fault at each of its points, on each database
#   make torture    clients, servers and networks that are hurt under load (CELL=, SEED=)
#   make sim        hours of simulated clients, network and server, each of a seed (SEED=, HOURS=)
#   make patroni    clients over a Patroni cluster whose leader is killed, frozen, cut off
#   make reap-load  what reaping and pruning 1,000,000 rows costs 8 clients, on each database (ROWS=)
#   make programs   build the test programs
#   make format     format with clang-format; make check-format only looks

# ---- test programs -------------------------------------------------------------------------------
# Each file with a main() is a program. The other files of its folder are linked into each of them.
# tests/lib is for all; its check.o is always linked, because it works without a call.

ONLY ?= self unit drivers schema input faults counted races sim $(if $(COMMAND),cli torture) mutants
folders := $(addprefix tests/,$(filter-out docs,$(ONLY))) # whose only program is built by a rule of its own
has_main = $(if $(wildcard $1),$(shell grep -lE '^int main\b|^TEST_MAIN' $(wildcard $1)))
mains := $(foreach f,$(folders),$(call has_main,$f/*.c))
helpers = $(filter-out $(mains),$(wildcard $1*.c))

# A program is left out if it names a driver (or a client library) that is not built, and has no
# #ifdef TEST_HAVE_<DRIVER> for it.
names_fake := sqlock/fake\.h|fake_(quirks|network|hosts|batch)\.h|sqlock_fake_dialect
names_sqlite := sqlock/sqlite.h|sqlite3\.h|sqlock_sqlite_dialect
names_mysql := sqlock/mysql.h|[<"/]mysql\.h|sqlock_mysql_dialect
names_postgres := sqlock/postgres.h|libpq-fe\.h|sqlock_postgres_dialect
files_of = $1 $(call helpers,$(dir $1)) $(wildcard $(dir $1)*.h)
wants = $(shell grep -lE '$(names_$2)' $(call files_of,$1) | xargs -r grep -L TEST_HAVE_$(call upper,$2))
left_out := $(sort $(foreach d,$(ABSENT),$(foreach m,$(mains),$(if $(call wants,$m,$d),$m))))
# Steps are core's, and so are threads: under a sanitizer a suite in steps runs on one server, or on none. There the
# modes of a SQLite file make no difference.
stepped := $(filter %_stepped_test.c,$(mains))
spared := $(if $(SAN),$(filter-out %/fake_stepped_test.c $(if $(filter address,$(SAN)),%/postgres_stepped_test.c),$(stepped)) %/sqlite_given_test.c)
programs := $(patsubst %.c,$(BUILD)/%,$(filter-out $(left_out) $(spared),$(mains)))

flags_tests = -I. -Itests/lib -DTEST_DRIVERS_BUILT='"$(DRIVERS) small"' \
    -DTEST_COMMAND='"$(abspath $(BUILD)/sqlock)"' \
    $(foreach d,$(DRIVERS),-DTEST_HAVE_$(call upper,$d)=1) $(CLIENT_CFLAGS)

$(BUILD)/libtest.a: $(call objects,tests/lib/*.c recipes/*.c)
	@rm -f $@
	$(AR) rcs $@ $^

# What a folder's programs need besides. The simulation stands before the machine of core/base, gives
# the fake database its clock, and takes its judge from the torture.
objects_sim := $(patsubst %,$(BUILD)/obj/tests/torture/%.o,check_answers check_book check_claims check_load \
    check_queue check_report check_rows check_shared check_spans history text)
link_sim := -Wl,--wrap=clock_gettime
folder_of = $(notdir $(patsubst %/,%,$(dir $1)))

define program_rule
$1: $(patsubst $(BUILD)/%,$(BUILD)/obj/%.o,$1) $(objects_$(call folder_of,$1)) \
    $(patsubst %.c,$(BUILD)/obj/%.o,$(call helpers,$(patsubst $(BUILD)/%,%,$(dir $1)))) \
    $(BUILD)/obj/tests/lib/check.o $(BUILD)/libtest.a $(INSIDE) | $(COMMAND)
	@mkdir -p $$(@D)
	$$(LINK) $(link_$(call folder_of,$1)) -o $$@ $$^ $$(CLIENT_LIBS) $$(if $$(COMMAND),$$(libs_jansson)) -lcmocka -ldl
endef
$(foreach p,$(programs),$(eval $(call program_rule,$p)))

# The driver of tests/outside is made in a folder of its own, of what an installation of this tree has.
OUTSIDE := $(BUILD)/outside/small.o $(BUILD)/outside/dialect.o
$(BUILD)/tests/drivers/small_test: $(OUTSIDE)
$(OUTSIDE) &: $(wildcard tests/outside/* include/sqlock/*.h) $(BUILD)/embed.awk $(FLAGS) | all
	@mkdir -p $(BUILD)/outside
	+@dir=$$(mktemp -d) && OUTSIDE_CFLAGS="$(WARNINGS) $(SAN_FLAGS)" tests/outside/build.sh "$$dir" && \
	    cp "$$dir"/driver/*.o $(BUILD)/outside && rm -rf "$$dir"

.PHONY: programs
programs: $(programs)

# ---- checks --------------------------------------------------------------------------------------

checks := $(addprefix tests/tools/check-,layers.sh headers.sh embed.sh runner.sh mutants.sh symbols.sh \
    readme.sh install.sh outside.sh) $(addprefix tests/docs/,names.sh english.sh path.sh)
# The READMEs' examples run programs of many folders.
checks += $(if $(filter file,$(origin ONLY)),tests/docs/examples.sh)
checks += $(if $(filter 1,$(STRICT)),tests/tools/check-format.sh)

# What takes longer, builds programs or installs is in make check.
quick_checks := $(addprefix tests/tools/check-,layers.sh headers.sh embed.sh symbols.sh readme.sh) \
    $(addprefix tests/docs/,names.sh english.sh)

# An acquire is traced: core and the fake driver once more, with a call at the entry of each function.
path := $(if $(filter fake,$(DRIVERS)),$(BUILD)/tests/docs/path)
$(BUILD)/traced/%.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) $(flags_core) $(cflags_fake) -O0 -g -finstrument-functions -c -o $@ $<
$(BUILD)/tests/docs/path: $(patsubst %.c,$(BUILD)/traced/%.o,$(wildcard core/*/*.c drivers/fake/*.c)) \
    $(BUILD)/obj/gen/fake.o $(BUILD)/obj/tests/docs/path.o
	@mkdir -p $(@D)
	$(LINK) -no-pie -o $@ $^ $(libs_fake)
traced = $(if $(filter tests/docs/path.sh,$(checks)),$(if $(SAN),,$(path)))

# Each bug that is planted in a copy is a check: it passes if its test fails there.
mutant = $(patsubst %,$(BUILD)/tests/mutants/%.sh,$1)
planted := $(if $(and $(filter mutants,$(ONLY)),$(if $(SAN),,1)),$(call mutant,$(patsubst tests/mutants/%.mutant,%,\
    $(shell grep -lx 'when: check' tests/mutants/*.mutant))))

$(BUILD)/tests/mutants/%.sh: tests/mutants/%.mutant
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/mutants/mutant.sh %s $$CONTROL\n' $* >$@ && chmod +x $@

# ---- targets -------------------------------------------------------------------------------------

# DRIVERS has another name for the scripts: make starts itself once more, and would take it for your choice.
export CC CXX BUILD SO STRICT T SAN CELL CELLS SEED
export BUILT_DRIVERS := $(DRIVERS)

# make reads pkg-config before deps.sh installs anything. So it starts once more after that.
.PHONY: check test quick check-mysql counted reap-load torture sim patroni mutant mutants deps
check test quick check-mysql counted reap-load torture sim patroni mutant mutants: deps
quick: DEPS := quick
deps:
	@tests/tools/deps.sh $(DEPS)

restart := $(MAKE) --no-print-directory
check test:
	@+$(restart) run-all

# Most of these tests wait, so more of them run at a time.
quick:
	@+SQLOCK_TEST_DRIVERS="fake sqlite" SQLOCK_TEST_QUICK=1 JOBS=$${JOBS:-$$(($$(nproc) * 3))} \
	    $(restart) run-all ONLY="unit drivers" checks="$(quick_checks)"

# The servers are kept in build/servers.
MYSQLS ?= 5.6 9
check-mysql:
	@+SQLOCK_TEST_MYSQLS="$(MYSQLS)" $(restart) run-all RUN=--genuine

# make check leaves out what lasts, and most of it on servers.
counted:
	@+SQLOCK_TEST_COUNTED=all SQLOCK_TEST_LIMIT=3600 $(restart) run-all ONLY=counted checks=

# Two tests of the drivers' programs, at length (LOAD=prune: one). Their figures are lines of the logs.
ROWS ?= 1000000
reap-load:
	@+rm -f $(BUILD)/log/drivers-*.log; JOBS=1 SQLOCK_TEST_ROWS=$(ROWS) SQLOCK_TEST_LIMIT=3600 \
	    $(restart) run-all ONLY=drivers T=$(LOAD)_under_load; rc=$$?; \
	    grep -hE '^(reap|prune)-load' $(BUILD)/log/drivers-*.log; exit $$rc

# For TORTURE_MINUTES. CELL="postgres server-killed" SEED=7 is one cell once more.
torture:
	@+$(restart) all $(BUILD)/tests/torture/torture ONLY=torture
	@tests/torture/torture.sh $(BUILD)/tests/torture/torture

# So many hours, each of a seed of its own, from SEED on. It ends with the first that fails.
HOURS ?= 600
sim:
	@+$(restart) $(BUILD)/tests/sim/sim_test ONLY=sim
	@HOURS=$(HOURS) SQLOCK_TEST_FILTER=test_worlds_of_more_seeds_keep_the_promises $(BUILD)/tests/sim/sim_test

# As root.
patroni:
	@+$(restart) all $(BUILD)/tests/torture/torture ONLY=torture
	@tests/torture/patroni.sh $(BUILD)/tests/torture/torture $(BUILD)/sqlock

.PHONY: run-all run-mutants
run-all: all $(programs) $(planted) $(traced)
ifneq ($(left_out),)
	@echo "SKIP without the drivers $(ABSENT): $(left_out)"
endif
ifneq ($(and $(ABSENT),$(filter 1,$(STRICT)),$(if $(CHOSEN),,yes)),)
	@echo "FAIL no client library for $(ABSENT) (STRICT=1 needs it)" && exit 1
endif
	@tests/tools/run.sh $(RUN) $(BUILD) $(if $(SAN),,$(checks)) $(programs) $(planted)

# Each mutant's test runs on the tree as it is, too. Of the tests only what they need is built, and started.
M = $(patsubst tests/mutants/%.mutant,%,$(wildcard tests/mutants/*.mutant))
of_mutants = $(sort $(foreach m,$M,$(shell sed -n 's|^$1: *$2|\1|p' tests/mutants/$m.mutant)))
mutant mutants:
	@+$(restart) run-mutants ONLY="$(call of_mutants,check,\([^/]*\)/.*)"

run-mutants: all $(addprefix $(BUILD)/tests/,$(call of_mutants,check,\([^ ]*\) .*)) $(call mutant,$M)
	@rm -f $(BUILD)/log/mutants-*.log
	@CONTROL=--control SQLOCK_TEST_DRIVERS="$${SQLOCK_TEST_DRIVERS-$(call of_mutants,on,\(.*\))}" \
	    tests/tools/run.sh $(BUILD) $(call mutant,$M); rc=$$?; \
	    cat $(BUILD)/log/mutants-*.log; exit $$rc

.PHONY: check-layers check-headers check-embed check-runner check-mutants check-format
check-layers check-headers check-embed check-runner check-mutants check-format:
	@tests/tools/$@.sh

.PHONY: check-symbols check-readme check-install check-outside
check-symbols check-readme check-install check-outside: all
	@tests/tools/$@.sh

.PHONY: format
format:
	@tests/tools/check-format.sh --write
