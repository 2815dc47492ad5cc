# sqlock. All that is made goes to build/.
#
#   make            the libraries: core, and each driver whose client library pkg-config finds; and
#                   the command, build/sqlock, if pkg-config finds jansson
#   make check      everything that can fail; make quick: the part for every few minutes
#     T=word        only the test programs, checks or tests with this in their name
#     SAN=address   (undefined, thread) with that sanitizer, in a build folder of its own
#     ONLY="unit"   only programs of these folders of tests/
#     STRICT=1      warnings are errors, and what cannot be tested here fails
#   make check-mysql  the part that knows MySQL, on genuine MySQL 5.6 and 9, which are fetched (MYSQLS=)
#   make mutants    each bug of tests/mutants is planted in a copy of the tree, and caught by its test;
#                   make mutant M=name: one of them. 13 are in make check
#   make counted    every call with every fault at each of its points, on each database
#   make patroni    clients over a Patroni cluster whose leader is killed, frozen, cut off
#   make reap-load  what reaping and pruning 1,000,000 rows costs 8 clients, on each database (ROWS=)
#   make bench      acquire and release against a bare loop of the same statements
#   make demo       build and run the demo; DB=postgres or mysql: on a server of its own
#   make format     with clang-format; make check-format only looks
#   make install    headers, libraries, .pc files, the command and the migrations as SQL (DESTDIR,
#                   PREFIX, LIBDIR; or bindir, libdir, includedir ...); make uninstall takes the same, away
#
# CC, CFLAGS, CPPFLAGS and LDFLAGS are yours; what the project needs is added to them. DRIVERS="fake
# sqlite" chooses drivers, MYSQL_CLIENT=mysqlclient (or libmariadb) the client library of the MySQL one.

CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
CFLAGS ?= -O2 -g
PKG_CONFIG ?= pkg-config

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
bindir ?= $(PREFIX)/bin
includedir ?= $(PREFIX)/include
libdir ?= $(LIBDIR)
pkgconfigdir ?= $(libdir)/pkgconfig
mandir ?= $(PREFIX)/share/man
docdir ?= $(PREFIX)/share/doc/sqlock
sqldir ?= $(PREFIX)/share/sqlock/migrations
unitdir ?= $(PREFIX)/lib/systemd/system

VERSION := $(shell sed -n 's/^.define SQLOCK_VERSION "\(.*\)"/\1/p' include/sqlock/sqlock.h)
SO := so.$(firstword $(subst ., ,$(VERSION)))

ifneq ($(filter true 1,$(CI)),)
STRICT ?= 1
endif

comma := ,
BUILD := build$(if $(SAN),/san-$(SAN))

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# ---- drivers -------------------------------------------------------------------------------------
# A driver is drivers/<name>/*.c and its dialect, which is made of schema/<name> and migrations/<name>; the fake's is
# SQLite's, and what schema/fake has in its place.

ALL_DRIVERS := fake sqlite postgres mysql
package_fake := sqlite3
package_sqlite := sqlite3
package_postgres := libpq
MYSQL_CLIENT ?= $(firstword $(foreach p,libmariadb mysqlclient,\
    $(shell $(PKG_CONFIG) --exists $p 2>/dev/null && echo $p)) libmariadb)
package_mysql := $(MYSQL_CLIENT) liburiparser
dialect_sqlite := -v style='?N' -v schema=main -v fixed_schema=1
dialect_postgres := -v style='$$' -v schema=public -v fixed_schema=0
dialect_mysql := -v style='?' -v quote='`' -v schema= -v fixed_schema=0
dialect_fake := $(dialect_sqlite) -v own=schema/fake/statements.sql

there = $(if $(package_$1),$(shell $(PKG_CONFIG) --exists $(package_$1) 2>/dev/null && echo yes),yes)
CHOSEN := $(filter-out undefined,$(origin DRIVERS))
ifeq ($(CHOSEN),)
DRIVERS := $(foreach d,$(ALL_DRIVERS),$(if $(call there,$d),$d))
endif
# The tests need it.
override DRIVERS := $(if $(call there,fake),fake )$(filter-out fake,$(DRIVERS))
UNKNOWN := $(filter-out $(ALL_DRIVERS),$(DRIVERS))
$(if $(UNKNOWN),$(error there is no driver called $(UNKNOWN): choose from $(ALL_DRIVERS)))
ABSENT := $(filter-out $(DRIVERS),$(ALL_DRIVERS))

$(foreach d,$(DRIVERS),$(if $(package_$d),\
    $(eval cflags_$d := $(shell $(PKG_CONFIG) --cflags $(package_$d) 2>/dev/null))\
    $(eval libs_$d := $(shell $(PKG_CONFIG) --libs $(package_$d) 2>/dev/null))))
CLIENT_CFLAGS := $(foreach d,$(DRIVERS),$(cflags_$d))
CLIENT_LIBS := $(foreach d,$(DRIVERS),$(libs_$d))

# The command writes JSON with jansson.
cflags_jansson := $(shell $(PKG_CONFIG) --cflags jansson 2>/dev/null)
libs_jansson := $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null)
COMMAND := $(if $(libs_jansson),$(BUILD)/sqlock)

# ---- flags ---------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
    -Wformat=2 -Wno-string-concatenation $(if $(filter 1,$(STRICT)),-Werror)
SAN_FLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
    $(if $(filter undefined,$(SAN)),-fno-sanitize-recover=all)
OUR_CFLAGS := -std=c11 -D_GNU_SOURCE -pthread -fPIC -fvisibility=hidden $(WARNINGS) $(SAN_FLAGS)
COMPILE := $(CC) $(OUR_CFLAGS) -Iinclude $(CPPFLAGS) $(CFLAGS) -MMD -MP
LINK := $(CC) -pthread $(SAN_FLAGS) $(CFLAGS) $(LDFLAGS)

# Objects depend on this file, which changes when the flags do.
FLAGS_NOW := $(COMPILE) | $(LINK) | $(DRIVERS) | $(CLIENT_CFLAGS)
$(shell mkdir -p $(BUILD)/pc)
FLAGS := $(BUILD)/flags
ifneq ($(file <$(FLAGS)),$(FLAGS_NOW))
$(file >$(FLAGS),$(FLAGS_NOW))
endif

# ---- libraries -----------------------------------------------------------------------------------

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $1))
CORE_OBJECTS := $(call objects,core/*/*.c)
STATIC := $(BUILD)/libsqlock.a $(DRIVERS:%=$(BUILD)/libsqlock-%.a)
SHARED := $(BUILD)/libsqlock.$(SO) $(DRIVERS:%=$(BUILD)/libsqlock-%.$(SO))

# With a sanitizer the shared ones are for the command only, which opens drivers by their soname.
.PHONY: all
all: $(STATIC) $(SHARED) $(COMMAND)
ifneq ($(ABSENT),)
	@echo "left out: $(ABSENT) (no client library by pkg-config, or not in DRIVERS)"
endif
ifeq ($(libs_jansson),)
	@echo "left out: the command (no jansson by pkg-config)"
endif
ifeq ($(shell command -v scdoc),)
	@echo "left out: the manual page (no scdoc)"
endif

$(BUILD)/obj/core/%.o: core/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) -I. -c -o $@ $<

# A static library is one object in which all but the API is local: a program that has a pg_exec() or a
# mutex_lock() of its own meets none of ours.
OBJCOPY ?= objcopy
define PACK
@rm -f $@
$(LD) -r -o $(@:.a=.o) $^
$(OBJCOPY) --localize-hidden $(@:.a=.o)
$(AR) rcs $@ $(@:.a=.o)
endef

$(BUILD)/libsqlock.a: $(CORE_OBJECTS)
	$(PACK)

# Whatever the compiler did, nothing but the API leaves a shared library.
$(BUILD)/exports: $(FLAGS)
	echo 'SQLOCK_$(SO:so.%=%) { global: sqlock_*; local: *; };' >$@

LINK_SHARED = $(LINK) -shared -Wl,-soname,$(@F) -Wl,--version-script,$(BUILD)/exports -Wl,-z,defs \
    -Wl,--as-needed

$(BUILD)/libsqlock.$(SO): $(CORE_OBJECTS) $(BUILD)/exports
	$(LINK_SHARED) -o $@ $(CORE_OBJECTS)
	@ln -sf $(@F) $(@:.$(SO)=.so)

# By awk into another name: a failure leaves nothing that looks made.
define driver_rules
objects_$1 := $$(call objects,drivers/$1/*.c) $(BUILD)/obj/gen/$1.o
base_$1 := $(if $(filter fake,$1),sqlite,$1)
ups_$1 := $$(sort $$(wildcard migrations/$$(base_$1)/*.up.sql))
texts_$1 := include/sqlock/request.h $(if $(filter fake,$1),schema/$1/statements.sql) schema/$$(base_$1)/tables.sql \
    schema/$$(base_$1)/statements.sql $$(sort $$(wildcard migrations/$$(base_$1)/*.sql))

$(BUILD)/gen/$1.c: schema/embed.awk schema/qualify.awk $$(texts_$1)
	@mkdir -p $$(@D)
	sums=$$$$(sha256sum $$(ups_$1) | cut -c1-16 | tr '\n' ' ') && \
	    awk -v dialect=$1 -v quote='"' -v checksums="$$$$sums" $$(dialect_$1) \
	    -f schema/qualify.awk -f schema/embed.awk $$(texts_$1) >$$@.new && mv $$@.new $$@

$(BUILD)/obj/gen/$1.o: $(BUILD)/gen/$1.c $(FLAGS)
	@mkdir -p $$(@D)
	$$(COMPILE) -c -o $$@ $$<

$(BUILD)/obj/drivers/$1/%.o: drivers/$1/%.c $(FLAGS)
	@mkdir -p $$(@D)
	$$(COMPILE) $$(cflags_$1) -c -o $$@ $$<

$(BUILD)/libsqlock-$1.a: $$(objects_$1)
	$$(PACK)

$(BUILD)/libsqlock-$1.$(SO): $$(objects_$1) $(BUILD)/libsqlock.$(SO) $(BUILD)/exports
	$$(LINK_SHARED) -o $$@ $$(objects_$1) $(BUILD)/libsqlock.$(SO) $$(libs_$1)
	@ln -sf $$(@F) $$(@:.$(SO)=.so)
endef
$(foreach d,$(DRIVERS),$(eval $(call driver_rules,$d)))

# ---- the command ---------------------------------------------------------------------------------
# It is linked with libsqlock alone, and opens drivers by their soname: in build/ it finds them beside
# itself, and once installed where the system keeps libraries. A sanitizer's dlopen() comes from its own
# library: so the path must be one that counts for all (RPATH), not only for the command's own calls.

COMMAND_OBJECTS := $(call objects,cli/*.c cli/*/*.c)

$(BUILD)/obj/cli/%.o: cli/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) -I. $(cflags_jansson) -c -o $@ $<

$(BUILD)/sqlock: $(COMMAND_OBJECTS) $(BUILD)/libsqlock.$(SO)
	$(LINK) -Wl,-rpath,'$$ORIGIN' $(if $(SAN),-Wl$(comma)--disable-new-dtags) -o $@ $^ $(libs_jansson) -ldl

$(BUILD)/installed/sqlock: $(COMMAND_OBJECTS) $(BUILD)/libsqlock.$(SO)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(libs_jansson) -ldl

# ---- test programs -------------------------------------------------------------------------------
# Each file with a main() is a program; the others of its folder are linked into all of its programs.
# tests/lib is for all; its check.o always comes along, because it works without being called.

ONLY ?= self unit drivers schema input faults counted races $(if $(COMMAND),cli torture) mutants
folders := $(addprefix tests/,$(ONLY))
has_main = $(if $(wildcard $1),$(shell grep -lE '^int main\b|^TEST_MAIN' $(wildcard $1)))
mains := $(foreach f,$(folders),$(call has_main,$f/*.c))
helpers = $(filter-out $(mains),$(wildcard $1*.c))

# A program that names a driver (or its client library) which is not built, and has no #ifdef
# TEST_HAVE_<DRIVER> for it, is left out.
names_fake := sqlock/fake\.h|fake_(quirks|network|hosts)\.h|sqlock_fake_dialect
names_sqlite := sqlock/sqlite.h|sqlite3\.h|sqlock_sqlite_dialect
names_mysql := sqlock/mysql.h|[<"/]mysql\.h|sqlock_mysql_dialect
names_postgres := sqlock/postgres.h|libpq-fe\.h|sqlock_postgres_dialect
upper = $(shell echo $1 | tr a-z A-Z)
files_of = $1 $(call helpers,$(dir $1)) $(wildcard $(dir $1)*.h)
wants = $(shell grep -lE '$(names_$2)' $(call files_of,$1) | xargs -r grep -L TEST_HAVE_$(call upper,$2))
left_out := $(sort $(foreach d,$(ABSENT),$(foreach m,$(mains),$(if $(call wants,$m,$d),$m))))
programs := $(patsubst %.c,$(BUILD)/%,$(filter-out $(left_out),$(mains)))

TEST_CPPFLAGS = -I. -Itests/lib -DTEST_DRIVERS_BUILT='"$(DRIVERS)"' \
    -DTEST_COMMAND='"$(abspath $(BUILD)/sqlock)"' \
    $(foreach d,$(DRIVERS),-DTEST_HAVE_$(call upper,$d)=1)
TEST_LIBS := $(DRIVERS:%=$(BUILD)/libsqlock-%.a) $(BUILD)/libinside.a

# What is local in the libraries, for tests that look inside: core, and the dialects.
$(BUILD)/libinside.a: $(CORE_OBJECTS) $(DRIVERS:%=$(BUILD)/obj/gen/%.o)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/obj/tests/%.o: tests/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) $(TEST_CPPFLAGS) $(CLIENT_CFLAGS) -c -o $@ $<

$(BUILD)/libtest.a: $(call objects,tests/lib/*.c)
	@rm -f $@
	$(AR) rcs $@ $^

define program_rule
$1: $(patsubst $(BUILD)/%,$(BUILD)/obj/%.o,$1) \
    $(patsubst %.c,$(BUILD)/obj/%.o,$(call helpers,$(patsubst $(BUILD)/%,%,$(dir $1)))) \
    $(BUILD)/obj/tests/lib/check.o $(BUILD)/libtest.a $(TEST_LIBS) | $(COMMAND)
	@mkdir -p $$(@D)
	$$(LINK) -o $$@ $$^ $$(CLIENT_LIBS) $$(if $$(COMMAND),$$(libs_jansson)) -lcmocka -ldl
endef
$(foreach p,$(programs),$(eval $(call program_rule,$p)))

.PHONY: programs
programs: $(programs)

# ---- checks --------------------------------------------------------------------------------------

checks := $(addprefix tests/tools/check-,layers.sh headers.sh embed.sh runner.sh mutants.sh symbols.sh \
    readme.sh install.sh) tests/docs/names.sh tests/docs/english.sh \
    tests/docs/plot.sh
# The READMEs' examples run programs of many folders.
checks += $(if $(filter file,$(origin ONLY)),tests/docs/examples.sh)
checks += $(if $(filter 1,$(STRICT)),tests/tools/check-format.sh)

# Bugs that are planted in a copy, each a check: it passes if its test fails there.
mutant = $(patsubst %,$(BUILD)/tests/mutants/%.sh,$1)
planted := $(if $(and $(filter mutants,$(ONLY)),$(if $(SAN),,1)),$(call mutant,$(patsubst tests/mutants/%.mutant,%,\
    $(shell grep -lx 'when: check' tests/mutants/*.mutant))))

$(BUILD)/tests/mutants/%.sh: tests/mutants/%.mutant
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/mutants/mutant.sh %s $$CONTROL\n' $* >$@ && chmod +x $@

# DRIVERS goes by another name: make starts itself once more, and would take it for the user's choice.
export CC CXX BUILD SO STRICT T SAN CELL CELLS SEED
export BUILT_DRIVERS := $(DRIVERS)

.PHONY: check test quick run-all run-quick demo format
.PHONY: check-layers check-headers check-embed check-runner check-mutants check-symbols check-readme check-format

# make reads pkg-config before anything is installed: so it starts once more when that is done.
check test:
	@tests/tools/deps.sh
	@+$(MAKE) --no-print-directory run-all

quick:
	@tests/tools/deps.sh
	@+SQLOCK_TEST_DRIVERS="fake sqlite" $(MAKE) --no-print-directory run-all ONLY="unit drivers"

# On genuine MySQL servers, which are fetched for it and kept in build/servers.
MYSQLS ?= 5.6 9
.PHONY: check-mysql
check-mysql:
	@tests/tools/deps.sh
	@+SQLOCK_TEST_MYSQLS="$(MYSQLS)" $(MAKE) --no-print-directory run-all RUN=--genuine

# Without it check leaves out what lasts, and most of it on servers.
.PHONY: counted
counted:
	@tests/tools/deps.sh
	@+SQLOCK_TEST_COUNTED=all SQLOCK_TEST_LIMIT=3600 $(MAKE) --no-print-directory run-all ONLY=counted \
	    checks=

# Two tests of the drivers' programs, at length (LOAD=prune: one). Their figures are in lines of the logs.
ROWS ?= 1000000
.PHONY: reap-load
reap-load:
	@tests/tools/deps.sh
	@+rm -f $(BUILD)/log/drivers-*.log; JOBS=1 SQLOCK_TEST_ROWS=$(ROWS) SQLOCK_TEST_LIMIT=3600 \
	    $(MAKE) --no-print-directory run-all ONLY=drivers T=$(LOAD)_under_load; rc=$$?; \
	    grep -hE '^(reap|prune)-load' $(BUILD)/log/drivers-*.log; exit $$rc

# Cells of tests/torture, for TORTURE_MINUTES; CELL="postgres server-killed" SEED=7 is one of them again.
.PHONY: torture
torture:
	@tests/tools/deps.sh
	@+$(MAKE) --no-print-directory all $(BUILD)/tests/torture/torture ONLY=torture
	@tests/torture/torture.sh $(BUILD)/tests/torture/torture

# Clients over a Patroni cluster whose leader is killed, frozen, cut off; as root.
.PHONY: patroni
patroni:
	@tests/tools/deps.sh
	@+$(MAKE) --no-print-directory all $(BUILD)/tests/torture/torture ONLY=torture
	@tests/torture/patroni.sh $(BUILD)/tests/torture/torture $(BUILD)/sqlock

run-all: all $(programs) $(planted)
ifneq ($(left_out),)
	@echo "SKIP without the drivers $(ABSENT): $(left_out)"
endif
ifneq ($(and $(ABSENT),$(filter 1,$(STRICT)),$(if $(CHOSEN),,yes)),)
	@echo "FAIL no client library for $(ABSENT) (STRICT=1 asks for it)" && exit 1
endif
	@tests/tools/run.sh $(RUN) $(BUILD) $(if $(SAN),,$(checks)) $(programs) $(planted)

# Each mutant's test is run on the tree as it is too. Of the tests only what they need is built, and started.
M ?= $(patsubst tests/mutants/%.mutant,%,$(wildcard tests/mutants/*.mutant))
of_mutants = $(sort $(foreach m,$M,$(shell sed -n 's|^$1: *$2|\1|p' tests/mutants/$m.mutant)))
.PHONY: mutant mutants run-mutants
mutant mutants:
	@tests/tools/deps.sh
	@+$(MAKE) --no-print-directory run-mutants ONLY="$(call of_mutants,check,\([^/]*\)/.*)"

run-mutants: all $(addprefix $(BUILD)/tests/,$(call of_mutants,check,\([^ ]*\) .*)) $(call mutant,$M)
	@rm -f $(BUILD)/log/mutants-*.log
	@CONTROL=--control SQLOCK_TEST_DRIVERS="$${SQLOCK_TEST_DRIVERS-$(call of_mutants,on,\(.*\))}" \
	    tests/tools/run.sh $(BUILD) $(call mutant,$M); rc=$$?; \
	    cat $(BUILD)/log/mutants-*.log; exit $$rc

check-layers check-headers check-embed check-runner check-mutants check-format:
	@tests/tools/$@.sh

check-symbols check-readme check-install: all
	@tests/tools/$@.sh

format:
	@tests/tools/check-format.sh --write

# ---- demo, install, clean ------------------------------------------------------------------------

# DB=postgres or mysql: on a server of its own.
DB ?= sqlite
demo_server := $(if $(filter postgres,$(DB)),tests/tools/pg.sh)$(if $(filter mysql,$(DB)),tests/tools/my.sh)

demo:
	@tests/tools/deps.sh $(if $(demo_server),,demo)
	@+$(MAKE) --no-print-directory run-demo

.PHONY: run-demo
ifeq ($(demo_server),)
run-demo: $(BUILD)/demo/ways-sqlite $(BUILD)/demo/demo $(COMMAND) $(BUILD)/libsqlock-sqlite.$(SO)
	$(BUILD)/demo/ways-sqlite
	$(BUILD)/demo/demo $(COMMAND)
else
run-demo: $(BUILD)/demo/ways-$(DB)
	url=$$($(demo_server) start) && { $< "$$url"; rc=$$?; $(demo_server) stop "$$url"; exit $$rc; }
endif

$(BUILD)/obj/demo/%.o: demo/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) $(CLIENT_CFLAGS) -c -o $@ $<

$(BUILD)/demo/demo: $(call objects,demo/*.c) $(BUILD)/libsqlock-sqlite.a $(BUILD)/libsqlock.a
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(libs_sqlite) -ldl

ways_common := $(filter-out demo/ways/market_%,$(wildcard demo/ways/*.c)) demo/ways/market.c demo/crew.c
$(BUILD)/demo/ways-%: $(BUILD)/obj/demo/ways/market_%.o $(call objects,$(ways_common)) \
    $(BUILD)/libsqlock-%.a $(BUILD)/libsqlock.a
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(libs_$*) -ldl

# ---- benchmark -----------------------------------------------------------------------------------
# BENCH="--runs 1 --ms 200" for a look; figures that are told come from its defaults.

BENCH_JSON ?= $(BUILD)/bench.json

bench:
	@tests/tools/deps.sh
	@+$(MAKE) --no-print-directory run-bench

.PHONY: bench run-bench
run-bench: $(BUILD)/bench/bench
	@bench/run.sh $< --json $(BENCH_JSON) $(BENCH)

BENCH_BARE := $(filter $(wildcard bench/bare_*.c),$(DRIVERS:%=bench/bare_%.c))
BENCH_SOURCES := $(filter-out bench/bare_%,$(wildcard bench/*.c)) $(BENCH_BARE)

$(BUILD)/obj/bench/%.o: bench/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) -I. $(cflags_jansson) $(foreach d,$(BENCH_BARE:bench/bare_%.c=%),-DBENCH_HAVE_$(call upper,$d)=1) \
	    $(CLIENT_CFLAGS) -c -o $@ $<

$(BUILD)/bench/bench: $(call objects,$(BENCH_SOURCES)) $(TEST_LIBS)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(CLIENT_LIBS) $(libs_jansson) -ldl

# ---- install -------------------------------------------------------------------------------------
# A .pc file for each library: who links only SQLite needs nothing of PostgreSQL. They are made anew each
# time, since they hold the folders.

under_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$1)
define PC_FILE
prefix=$(PREFIX)
includedir=$(call under_prefix,$(includedir))
libdir=$(call under_prefix,$(libdir))

Name: $1
Description: $2
Version: $(VERSION)
Cflags: -I$${includedir}
Libs: -L$${libdir} -l$(1:lib%=%)
endef
define PC_CORE
$(call PC_FILE,libsqlock,Distributed locks in the database that an application already has)
Libs.private: -pthread
endef
# What a static link needs besides. Not by libpq's own .pc: it asks for the static libpq's libraries too,
# which Debian has in packages of the server's.
private_of = $(if $(package_$1),Requires.private: $(package_$1))
private_of_postgres = Libs.private: $(libs_postgres)
define PC_DRIVER
$(call PC_FILE,libsqlock-$1,Driver of sqlock: $1)
Requires: libsqlock = $(VERSION)
$(if $(private_of_$1),$(private_of_$1),$(private_of))
endef

PCS := libsqlock.pc $(DRIVERS:%=libsqlock-%.pc)
LINKS := $(notdir $(SHARED:.$(SO)=.so))
# Those that belong to no driver are the core's.
CORE_HEADERS := $(filter-out $(ALL_DRIVERS:%=%.h),$(notdir $(wildcard include/sqlock/*.h)))
HEADERS := $(CORE_HEADERS) $(DRIVERS:%=%.h)

# The manual holds what the command says of itself. Without scdoc it is left out.
MANUAL := $(if $(COMMAND),$(if $(shell command -v scdoc),$(BUILD)/sqlock.1))
UNITS := sqlock-reap.service sqlock-reap.timer
CRONTABS := sqlock-reap.cron nightly-job.cron
put_bindir = sed 's|@bindir@|$(bindir)|g'

$(BUILD)/sqlock.1: cli/manual/make.sh cli/manual/head.scd cli/manual/tail.scd $(COMMAND) $(SHARED)
	cli/manual/make.sh $(BUILD)/sqlock >$@.scd && scdoc <$@.scd >$@.new && mv $@.new $@

# The migrations, as the command writes them.
SQL_DRIVERS := $(if $(COMMAND),$(filter-out fake,$(DRIVERS)))
SQL_FILES := $(patsubst migrations/%,%,$(wildcard $(SQL_DRIVERS:%=migrations/%/*.sql)))

$(SQL_FILES:%=$(BUILD)/sql/%): $(BUILD)/sql/%: migrations/% cli/sql/make.sh $(COMMAND) $(SHARED)
	@mkdir -p $(@D)
	cli/sql/make.sh $(BUILD)/sqlock $* >$@.new && mv $@.new $@

.PHONY: install uninstall clean
install: all $(COMMAND:$(BUILD)/%=$(BUILD)/installed/%) $(MANUAL) $(SQL_FILES:%=$(BUILD)/sql/%)
	$(file >$(BUILD)/pc/libsqlock.pc,$(PC_CORE))
	$(foreach d,$(DRIVERS),$(file >$(BUILD)/pc/libsqlock-$d.pc,$(call PC_DRIVER,$d)))
	install -d $(DESTDIR)$(includedir)/sqlock $(DESTDIR)$(libdir) $(DESTDIR)$(pkgconfigdir)
	install -m 644 $(HEADERS:%=include/sqlock/%) $(DESTDIR)$(includedir)/sqlock
	install -m 644 $(STATIC) $(SHARED) $(DESTDIR)$(libdir)
	for link in $(LINKS); do ln -sf $$link.$(SO:so.%=%) $(DESTDIR)$(libdir)/$$link || exit 1; done
	install -m 644 $(PCS:%=$(BUILD)/pc/%) $(DESTDIR)$(pkgconfigdir)
ifneq ($(COMMAND),)
	install -d $(DESTDIR)$(bindir)
	install -m 755 $(BUILD)/installed/sqlock $(DESTDIR)$(bindir)
	install -d $(DESTDIR)$(unitdir) $(DESTDIR)$(docdir) $(BUILD)/cron
	cp cli/cron/sqlock-reap.timer $(BUILD)/cron
	for file in cli/cron/*.in; do $(put_bindir) $$file >$(BUILD)/cron/$$(basename $$file .in) || exit 1; done
	install -m 644 $(UNITS:%=$(BUILD)/cron/%) $(DESTDIR)$(unitdir)
	install -m 644 $(CRONTABS:%=$(BUILD)/cron/%) $(DESTDIR)$(docdir)
endif
ifneq ($(SQL_FILES),)
	install -d $(SQL_DRIVERS:%=$(DESTDIR)$(sqldir)/%)
	for file in $(SQL_FILES); do install -m 644 $(BUILD)/sql/$$file $(DESTDIR)$(sqldir)/$$file || exit 1; done
endif
ifneq ($(MANUAL),)
	install -d $(DESTDIR)$(mandir)/man1
	install -m 644 $(MANUAL) $(DESTDIR)$(mandir)/man1
endif

# All that an install may have put there: what pkg-config finds today may be less than it was then.
ALL_LIBRARIES := libsqlock $(ALL_DRIVERS:%=libsqlock-%)
ALL_SQL := $(patsubst migrations/%,%,$(wildcard migrations/*/*.sql))

uninstall:
	rm -f $(patsubst %,$(DESTDIR)$(includedir)/sqlock/%,$(notdir $(wildcard include/sqlock/*.h))) \
	    $(ALL_LIBRARIES:%=$(DESTDIR)$(pkgconfigdir)/%.pc) \
	    $(foreach kind,a so $(SO),$(ALL_LIBRARIES:%=$(DESTDIR)$(libdir)/%.$(kind))) \
	    $(DESTDIR)$(bindir)/sqlock $(DESTDIR)$(mandir)/man1/sqlock.1 \
	    $(UNITS:%=$(DESTDIR)$(unitdir)/%) $(CRONTABS:%=$(DESTDIR)$(docdir)/%) \
	    $(ALL_SQL:%=$(DESTDIR)$(sqldir)/%)
	for folder in $(DESTDIR)$(includedir)/sqlock $(DESTDIR)$(docdir) $(ALL_DRIVERS:%=$(DESTDIR)$(sqldir)/%) \
	    $(DESTDIR)$(sqldir) $(DESTDIR)$(dir $(sqldir)); do [ ! -d $$folder ] || rmdir $$folder || :; done

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
