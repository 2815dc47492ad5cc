#   make bench      measure what a lock costs, against loops over the client library alone
#     BENCH="--runs 1 --ms 100" for a look; published figures come from its defaults. It installs nothing

BENCH_JSON ?= $(BUILD)/bench.json

.PHONY: bench
bench: $(BUILD)/bench/bench $(COMMAND) $(DRIVERS:%=$(BUILD)/libsqlock-%.$(SO))
	@bench/run.sh $< $(COMMAND:%=--command %) --json $(BENCH_JSON) $(BENCH)

bare := $(filter $(wildcard bench/bare_*.c),$(DRIVERS:%=bench/bare_%.c))
flags_bench = -I. $(cflags_jansson) $(foreach d,$(bare:bench/bare_%.c=%),-DBENCH_HAVE_$(call upper,$d)=1) \
    $(CLIENT_CFLAGS)

$(BUILD)/bench/bench: $(call objects,$(filter-out bench/bare_%,$(wildcard bench/*.c)) $(bare)) $(INSIDE)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(CLIENT_LIBS) $(libs_jansson) -ldl
