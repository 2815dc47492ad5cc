
#include "cli/base/info.h"

#include <stdio.h>
#include <string.h>

#include "cli/base/output.h"
#include "cli/base/shown.h"
#include "cli/base/text.h"

const char *info_state(const sqlock_info *info)
{
    if (!info->held)
        return "free";
    return info->holder.left_ms > 0 ? "held" : "expired";
}

const char *info_seat(const sqlock_info *info, char *out, size_t size)
{
    if (info->mode > 0)
        snprintf(out, size, "slot %lld/%lld", (long long)info->slot, (long long)info->mode);
    else
        snprintf(out, size, "shared");
    return out;
}

static void add_label(json_t *to, const char *label)
{
    char host[256];
    const char *rest;
    int64_t pid;

    if (!text_label(label, &pid, host, &rest)) {
        json_object_set_new(to, "label", json_text(label, strlen(label)));
        return;
    }
    json_object_set_new(to, "pid", json_integer(pid));
    json_object_set_new(to, "host", json_text(host, strlen(host)));
    json_object_set_new(to, "label", json_text(rest, strlen(rest)));
}

static void add_holder(json_t *to, const sqlock_info *info)
{
    char owner[TEXT_OWNER];

    json_object_set_new(to, "owner", json_string(text_owner(owner, info->owner)));
    json_object_set_new(to, "held_ms", json_integer(info->holder.held_ms));
    json_object_set_new(to, "left_ms", json_integer(info->holder.left_ms));
    add_label(to, info->holder.label);
}

static void add_mode(json_t *to, int64_t mode)
{
    json_object_set_new(to, "mode",
                        json_string(mode > 0                ? "slots"
                                    : mode == SQLOCK_SHARED ? "shared"
                                                            : "exclusive"));
    if (mode > 0)
        json_object_set_new(to, "slots", json_integer(mode));
}

/* How the lock is used, or was used last. */
json_t *info_json(const sqlock_info *info)
{
    json_t *out = json_object();

    json_object_set_new(out, "name", json_text(info->name, info->name_len));
    json_object_set_new(out, "state", json_string(info_state(info)));
    json_object_set_new(out, "token", json_integer(info->holder.token));
    if (info->mode != SQLOCK_EXCLUSIVE || info->held)
        add_mode(out, info->mode);
    if (info->slot >= 0)
        json_object_set_new(out, "slot", json_integer(info->slot));
    if (info->held)
        add_holder(out, info);
    return out;
}

char *info_holder(const sqlock_info *info)
{
    return shown_text(info->holder.label, strlen(info->holder.label));
}

const char *waiter_wants(const sqlock_waiter *waiter, char *out, size_t size)
{
    if (waiter->mode > 0)
        snprintf(out, size, "slot of %lld", (long long)waiter->mode);
    else
        snprintf(out, size, waiter->mode == SQLOCK_SHARED ? "shared" : "exclusive");
    return out;
}

json_t *waiter_json(const sqlock_waiter *waiter)
{
    json_t *out = json_object();
    char owner[TEXT_OWNER];

    json_object_set_new(out, "name", json_text(waiter->name, waiter->name_len));
    json_object_set_new(out, "place", json_integer(waiter->place));
    json_object_set_new(out, "waited_ms", json_integer(waiter->waited_ms));
    add_mode(out, waiter->mode);
    json_object_set_new(out, "owner", json_string(text_owner(owner, waiter->owner)));
    add_label(out, waiter->label);
    return out;
}

char *waiter_label(const sqlock_waiter *waiter)
{
    return shown_text(waiter->label, strlen(waiter->label));
}
