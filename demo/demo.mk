#   make demo       build and run the demo; DB=postgres or mysql: on a server of its own

DB ?= sqlite
demo_server := $(if $(filter postgres,$(DB)),tests/tools/pg.sh)$(if $(filter mysql,$(DB)),tests/tools/my.sh)

.PHONY: demo run-demo
demo:
	@tests/tools/deps.sh $(if $(demo_server),,demo)
	@+$(MAKE) --no-print-directory run-demo

ifeq ($(demo_server),)
run-demo: $(BUILD)/demo/ways-sqlite $(BUILD)/demo/demo $(COMMAND) $(BUILD)/libsqlock-sqlite.$(SO)
	$(BUILD)/demo/ways-sqlite
	$(BUILD)/demo/demo $(COMMAND)
else
run-demo: $(BUILD)/demo/ways-$(DB)
	url=$$($(demo_server) start) && { $< "$$url"; rc=$$?; $(demo_server) stop "$$url"; exit $$rc; }
endif

flags_demo := $(CLIENT_CFLAGS)

$(BUILD)/demo/demo: $(call objects,demo/*.c) $(BUILD)/libsqlock-sqlite.a $(BUILD)/libsqlock.a
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(libs_sqlite) -ldl

ways_common := $(filter-out demo/ways/market_%,$(wildcard demo/ways/*.c)) demo/ways/market.c demo/crew.c
$(BUILD)/demo/ways-%: $(BUILD)/obj/demo/ways/market_%.o $(call objects,$(ways_common)) \
    $(BUILD)/libsqlock-%.a $(BUILD)/libsqlock.a
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(libs_$*) -ldl
