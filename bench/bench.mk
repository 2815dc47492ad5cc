#   make bench      measure what a lock costs, against loops over the client library alone
#     BENCH="--runs 1 --ms 100" for a look; published figures come from its defaults. It installs nothing

BENCH_JSON ?= $(BUILD)/bench.json

.PHONY: bench
bench: $(BUILD)/bench/bench $(COMMAND) $(DRIVERS:%=$(BUILD)/libsqlock-%.$(SO))
	@bench/run.sh $< $(COMMAND:%=--command %) --json $(BENCH_JSON) $(BENCH)

bare := $(wildcard $(foreach d,$(DRIVERS),bench/bare_$d.c bench/bare_$(d)_*.c))

# Peers of which there is a client library.
peer = $(if $(shell $(PKG_CONFIG) --exists $2 2>/dev/null && echo yes),$1)
peers := $(call peer,redis,hiredis) $(call peer,etcd,libcurl) \
    $(if $(wildcard /usr/include/zookeeper/zookeeper.h),zookeeper)
libs_peers = $(if $(filter redis,$(peers)),-lhiredis) $(if $(filter etcd,$(peers)),-lcurl) \
    $(if $(filter zookeeper,$(peers)),-lzookeeper_mt)

# Which they are is compiled in.
PEERS := $(BUILD)/peers
.PHONY: peers
$(PEERS): peers
	@mkdir -p $(@D)
	@echo '$(strip $(peers))' | cmp -s - $@ || echo '$(strip $(peers))' >$@
$(BUILD)/obj/bench/peers.o $(BUILD)/bench/bench: $(PEERS)

have = $(foreach n,$1,-DBENCH_HAVE_$(call upper,$n)=1)
flags_bench = -I. $(cflags_jansson) $(call have,$(filter $(DRIVERS),$(bare:bench/bare_%.c=%)) $(peers)) \
    $(CLIENT_CFLAGS)

bench_sources := $(filter-out bench/bare_% bench/peer_%,$(wildcard bench/*.c)) $(bare) $(peers:%=bench/peer_%.c)
$(BUILD)/bench/bench: $(call objects,$(bench_sources)) $(INSIDE)
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter-out $(PEERS),$^) $(CLIENT_LIBS) $(libs_jansson) $(libs_peers) -ldl

#   make growth     measure large tables, long churn and old snapshots; see bench/growth
#     GROWTH="--seconds 5 --most 10000" for a look
.PHONY: growth
growth: $(BUILD)/bench/growth
	@bench/growth/growth.sh $< $(GROWTH)

$(BUILD)/bench/growth: $(call objects,bench/growth/*.c) $(DRIVERS:%=$(BUILD)/libsqlock-%.a) $(BUILD)/libsqlock.a
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ $(CLIENT_LIBS) -ldl
