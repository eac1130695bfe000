/* check.c - checks that each operation of an ops file is consistent with those before it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/check.h"

static const char NO_MEMORY[] = "cannot be kept: out of memory";

bool ops_addresses_init(struct ops_addresses *a)
{
    a->shared = 0;
    return page_table_init(&a->table);
}

void ops_addresses_free(struct ops_addresses *a)
{
    page_table_free(&a->table);
}

bool ops_addresses_add(struct ops_addresses *a, uint64_t addr)
{
    if (addr == 0)
        return true;
    struct page_entry *e = page_table_entry(&a->table, addr);
    a->shared += e->value > 0;
    return page_table_put(&a->table, e, addr, e->value + 1);
}

void ops_addresses_remove(struct ops_addresses *a, uint64_t addr)
{
    struct page_entry *e = page_table_entry(&a->table, addr);
    if (e->value > 1)
        e->value--;
    else if (e->value)
        page_table_delete_entry(&a->table, e);
}

bool ops_check_init(struct ops_check *c)
{
    *c = (struct ops_check){0};
    if (page_table_init(&c->live) && ops_addresses_init(&c->addresses))
        return true;
    ops_check_free(c);
    return false;
}

void ops_check_free(struct ops_check *c)
{
    page_table_free(&c->live);
    ops_addresses_free(&c->addresses);
}

static const char *begin_block(struct ops_check *c, struct page_entry *e, const struct op *op)
{
    uint64_t value = op->addr + 1 ? op->addr + 1 : 1;
    return page_table_put(&c->live, e, op->handle, value) && ops_addresses_add(&c->addresses, value - 1)
               ? NULL
               : NO_MEMORY;
}

const char *ops_check_one(struct ops_check *c, const struct op *op)
{
    if (op->code != OP_NEW && op->code != OP_FREE && op->code != OP_RESIZE)
        return NULL;
    struct page_entry *e = page_table_entry(&c->live, op->handle);
    if (op->code == OP_NEW)
        return e->value ? "is live already: a second N without an F" : begin_block(c, e, op);
    if (!e->value)
        return "is not live: no N of it before, or an F";
    ops_addresses_remove(&c->addresses, e->value - 1);
    if (op->code == OP_RESIZE)
        return begin_block(c, e, op);
    page_table_delete_entry(&c->live, e);
    return NULL;
}
