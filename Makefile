# sqlock's libraries, its command, and their installation. Everything that is made goes to build/.
#
#   make            build the libraries: core, and each driver whose client library pkg-config finds;
#                   and the command, build/sqlock, if pkg-config finds jansson
#   make install    headers, libraries, .pc files, the command, the migrations as SQL, and what makes
#                   C of a driver's SQL (DESTDIR, PREFIX, LIBDIR; or bindir, libdir, includedir ...);
#                   make uninstall removes them
#   make clean      delete build/
#   make help       list the targets
#
# You may set CC, CFLAGS, CPPFLAGS and LDFLAGS: the project adds what it needs. DRIVERS="fake sqlite"
# chooses drivers, MYSQL_CLIENT=mysqlclient (or libmariadb) the client library of the MySQL driver.
# Tests, benchmark and demo have files of their own, which are read at the end.

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
embed = $(dir $(sqldir))embed.awk
unitdir ?= $(PREFIX)/lib/systemd/system

VERSION := $(shell sed -n 's/^.define SQLOCK_VERSION "\(.*\)"/\1/p' include/sqlock/sqlock.h)
SO := so.$(firstword $(subst ., ,$(VERSION)))

BUILD := build$(if $(SAN),/san-$(SAN))
ifneq ($(filter true 1,$(CI)),)
STRICT ?= 1
endif

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# ---- drivers -------------------------------------------------------------------------------------
# A driver is drivers/<name>/*.c and its dialect, which the build makes of schema/<name> and
# migrations/<name>. The fake one has SQLite's dialect, with some statements of schema/fake.

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
# The tests need the fake one.
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

# Objects depend on this file. It changes when the flags do.
FLAGS_NOW := $(COMPILE) | $(LINK) | $(DRIVERS) | $(CLIENT_CFLAGS)
$(shell mkdir -p $(BUILD)/pc)
FLAGS := $(BUILD)/flags
ifneq ($(file <$(FLAGS)),$(FLAGS_NOW))
$(file >$(FLAGS),$(FLAGS_NOW))
endif

# ---- objects -------------------------------------------------------------------------------------
# flags_<folder> is what the files of a folder need besides.

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $1))
flags_core := -I.
flags_cli := -I. $(cflags_jansson)
flags_recipes := -I.
flags_drivers = $(cflags_$(word 2,$(subst /, ,$*)))

$(BUILD)/obj/%.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) $(flags_$(firstword $(subst /, ,$*))) -c -o $@ $<

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

# ---- libraries -----------------------------------------------------------------------------------

CORE_OBJECTS := $(call objects,core/*/*.c)
STATIC := $(BUILD)/libsqlock.a $(DRIVERS:%=$(BUILD)/libsqlock-%.a)
SHARED := $(BUILD)/libsqlock.$(SO) $(DRIVERS:%=$(BUILD)/libsqlock-%.$(SO))

# With a sanitizer only the command uses the shared ones: it opens drivers by their soname.
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

# A static library is one object, in which everything except the API is local. So a program may have a
# pg_exec() or a mutex_lock() of its own.
OBJCOPY ?= objcopy
define PACK
@rm -f $@
$(LD) -r -o $(@:.a=.o) $^
$(OBJCOPY) --localize-hidden $(@:.a=.o)
$(AR) rcs $@ $(@:.a=.o)
endef

$(BUILD)/libsqlock.a: $(CORE_OBJECTS)
	$(PACK)

# A shared library exports the API alone, whatever the compiler did.
$(BUILD)/exports: $(FLAGS)
	echo 'SQLOCK_$(SO:so.%=%) { global: sqlock_*; local: *; };' >$@

LINK_SHARED = $(LINK) -shared -Wl,-soname,$(@F) -Wl,--version-script,$(BUILD)/exports -Wl,-z,defs \
    -Wl,--as-needed

$(BUILD)/libsqlock.$(SO): $(CORE_OBJECTS) $(BUILD)/exports
	$(LINK_SHARED) -o $@ $(CORE_OBJECTS)
	@ln -sf $(@F) $(@:.$(SO)=.so)

# awk writes into another name, so that a failure leaves no file that looks complete.
define driver_rules
objects_$1 := $$(call objects,drivers/$1/*.c) $(BUILD)/obj/gen/$1.o
base_$1 := $(if $(filter fake,$1),sqlite,$1)
texts_$1 := include/sqlock/request.h $(if $(filter fake,$1),schema/$1/statements.sql) schema/$$(base_$1)/tables.sql \
    schema/$$(base_$1)/statements.sql $$(sort $$(wildcard migrations/$$(base_$1)/*.sql))

$(BUILD)/gen/$1.c: schema/embed.awk schema/qualify.awk $$(texts_$1)
	@mkdir -p $$(@D)
	awk -v dialect=$1 -v quote='"' $$(dialect_$1) \
	    -f schema/qualify.awk -f schema/embed.awk $$(texts_$1) >$$@.new && mv $$@.new $$@

$(BUILD)/libsqlock-$1.a: $$(objects_$1)
	$$(PACK)

$(BUILD)/libsqlock-$1.$(SO): $$(objects_$1) $(BUILD)/libsqlock.$(SO) $(BUILD)/exports
	$$(LINK_SHARED) -o $$@ $$(objects_$1) $(BUILD)/libsqlock.$(SO) $$(libs_$1)
	@ln -sf $$(@F) $$(@:.$(SO)=.so)
endef
$(foreach d,$(DRIVERS),$(eval $(call driver_rules,$d)))
# It stays loaded: the file of an adopted connection, which lives on, has functions of its own (lock.c).
$(BUILD)/libsqlock-sqlite.$(SO): private LINK_SHARED += -Wl,-z,nodelete

# ---- the command ---------------------------------------------------------------------------------
# It is linked with libsqlock alone, and opens drivers by their soname. In build/ it finds them beside
# itself; once installed, in the lib beside its folder, so that cron needs no LD_LIBRARY_PATH, or where the
# system keeps libraries. A sanitizer calls dlopen() from its own library, so the path must count for all
# libraries (RPATH), not only for the command's own calls.

$(BUILD)/installed/sqlock: rpath := -Wl,-rpath,'$$ORIGIN/../lib'
$(BUILD)/sqlock: rpath := -Wl,-rpath,'$$ORIGIN' $(if $(SAN),-Xlinker --disable-new-dtags)
$(BUILD)/sqlock $(BUILD)/installed/sqlock: $(call objects,cli/*.c cli/*/*.c recipes/*.c) $(BUILD)/libsqlock.$(SO)
	@mkdir -p $(@D)
	$(LINK) $(rpath) -o $@ $^ $(libs_jansson) -ldl

# ---- install -------------------------------------------------------------------------------------
# A .pc file for each library: a program that links only SQLite needs nothing of PostgreSQL. Each install
# makes them anew, because they name the folders.

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
embed=$(call under_prefix,$(embed))
endef
# What a static link needs besides. libpq's own .pc would require the libraries of a static libpq too,
# which Debian has in the server's packages.
private_of = $(if $(package_$1),Requires.private: $(package_$1))
private_of_postgres = Libs.private: $(libs_postgres)
define PC_DRIVER
$(call PC_FILE,libsqlock-$1,Driver of sqlock: $1)
Requires: libsqlock = $(VERSION)
$(if $(private_of_$1),$(private_of_$1),$(private_of))
endef

PCS := libsqlock.pc $(DRIVERS:%=libsqlock-%.pc)
LINKS := $(notdir $(SHARED:.$(SO)=.so))
# All except those of drivers that are not built.
HEADERS := $(filter-out $(ABSENT:%=%.h),$(notdir $(wildcard include/sqlock/*.h)))

# The manual holds the command's help. Without scdoc there is none.
MANUAL := $(if $(COMMAND),$(if $(shell command -v scdoc),$(BUILD)/sqlock.1))
UNITS := sqlock-reap.service sqlock-reap.timer
CRONTABS := sqlock-reap.cron nightly-job.cron

$(BUILD)/sqlock.1: cli/manual/make.sh cli/manual/head.scd cli/manual/tail.scd $(COMMAND) $(SHARED)
	cli/manual/make.sh $(BUILD)/sqlock >$@.scd && scdoc <$@.scd >$@.new && mv $@.new $@

# The migrations, as the command writes them.
SQL_DRIVERS := $(if $(COMMAND),$(filter-out fake,$(DRIVERS)))
SQL_FILES := $(patsubst migrations/%,%,$(wildcard $(SQL_DRIVERS:%=migrations/%/*.sql)))

$(SQL_FILES:%=$(BUILD)/sql/%): $(BUILD)/sql/%: migrations/% cli/sql/make.sh $(COMMAND) $(SHARED)
	@mkdir -p $(@D)
	cli/sql/make.sh $(BUILD)/sqlock $* >$@.new && mv $@.new $@

# For drivers that are written elsewhere: tests/outside is one.
$(BUILD)/embed.awk: schema/qualify.awk schema/embed.awk
	cat $^ >$@.new && mv $@.new $@

.PHONY: install uninstall clean
install: all $(BUILD)/embed.awk $(COMMAND:$(BUILD)/%=$(BUILD)/installed/%) $(MANUAL) $(SQL_FILES:%=$(BUILD)/sql/%)
	$(file >$(BUILD)/pc/libsqlock.pc,$(PC_CORE))
	$(foreach d,$(DRIVERS),$(file >$(BUILD)/pc/libsqlock-$d.pc,$(call PC_DRIVER,$d)))
	install -d $(DESTDIR)$(includedir)/sqlock $(DESTDIR)$(libdir) $(DESTDIR)$(pkgconfigdir)
	install -m 644 $(HEADERS:%=include/sqlock/%) $(DESTDIR)$(includedir)/sqlock
	install -m 644 $(STATIC) $(SHARED) $(DESTDIR)$(libdir)
	for link in $(LINKS); do ln -sf $$link.$(SO:so.%=%) $(DESTDIR)$(libdir)/$$link || exit 1; done
	install -m 644 $(PCS:%=$(BUILD)/pc/%) $(DESTDIR)$(pkgconfigdir)
	install -d $(DESTDIR)$(dir $(embed))
	install -m 644 $(BUILD)/embed.awk $(DESTDIR)$(embed)
ifneq ($(COMMAND),)
	install -d $(DESTDIR)$(bindir)
	install -m 755 $(BUILD)/installed/sqlock $(DESTDIR)$(bindir)
	install -d $(DESTDIR)$(unitdir) $(DESTDIR)$(docdir) $(BUILD)/cron
	cp cli/cron/sqlock-reap.timer $(BUILD)/cron
	for file in cli/cron/*.in; do sed "s|@bindir@|$(bindir)|g" $$file >$(BUILD)/cron/$$(basename $$file .in) || exit 1; done
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

# Everything that an install may have put there: pkg-config may find less today than it did then.
ALL_LIBRARIES := libsqlock $(ALL_DRIVERS:%=libsqlock-%)
ALL_SQL := $(patsubst migrations/%,%,$(wildcard migrations/*/*.sql))

uninstall:
	rm -f $(patsubst %,$(DESTDIR)$(includedir)/sqlock/%,$(notdir $(wildcard include/sqlock/*.h))) \
	    $(ALL_LIBRARIES:%=$(DESTDIR)$(pkgconfigdir)/%.pc) \
	    $(foreach kind,a so $(SO),$(ALL_LIBRARIES:%=$(DESTDIR)$(libdir)/%.$(kind))) \
	    $(DESTDIR)$(bindir)/sqlock $(DESTDIR)$(mandir)/man1/sqlock.1 \
	    $(UNITS:%=$(DESTDIR)$(unitdir)/%) $(CRONTABS:%=$(DESTDIR)$(docdir)/%) \
	    $(ALL_SQL:%=$(DESTDIR)$(sqldir)/%) $(DESTDIR)$(embed)
	for folder in $(DESTDIR)$(includedir)/sqlock $(DESTDIR)$(docdir) $(ALL_DRIVERS:%=$(DESTDIR)$(sqldir)/%) \
	    $(DESTDIR)$(sqldir) $(DESTDIR)$(dir $(sqldir)); do [ ! -d $$folder ] || rmdir $$folder || :; done

clean:
	rm -rf build

.PHONY: help
help:
	@sed -n '/^#   /s/^#   /  /p' $(filter Makefile %.mk,$(MAKEFILE_LIST))

# ---- tests, benchmark, demo ----------------------------------------------------------------------
# What they need of the libraries' insides, which are local in the libraries: core, and the dialects.

upper = $(shell echo $1 | tr a-z A-Z)
INSIDE := $(DRIVERS:%=$(BUILD)/libsqlock-%.a) $(BUILD)/libinside.a
$(BUILD)/libinside.a: $(CORE_OBJECTS) $(DRIVERS:%=$(BUILD)/obj/gen/%.o)
	@rm -f $@
	$(AR) rcs $@ $^

include $(wildcard bench/bench.mk demo/demo.mk tests/tests.mk)
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
