/* facts.c - facts about how a trace was made. (host side, no libc; see facts.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "config.h"
#include "ljtrace/protocol/pool_settings.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/ring/info.h"
#include "ljtrace/valgrind/session/facts.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"

static void put_settings(void)
{
    HChar key[64];
    for (UInt i = 0; i < POOL_SETTINGS; i++) {
        const HChar *value = VG_(getenv)(pool_settings[i]);
        VG_(snprintf)(key, sizeof key, POOL_SETTING_FACT "%s", pool_settings[i]);
        if (value)
            lt_put_info(key, value);
    }
}

void lt_put_facts(void)
{
    static HChar text[8192];
    struct vki_timeval now;
    lt_put_info("tool", "ljtrace " PACKAGE_VERSION);
    lt_put_info("valgrind", VG_VERSION);
    lt_put_number("pid", VG_(getpid)());
    VG_(client_cmd_and_args)(text, sizeof text);
    lt_put_info("command", text);
    VG_(client_fname)(text, sizeof text, True);
    lt_put_info("executable", text);
    VG_(gettimeofday)(&now, NULL);
    lt_put_number("start_unix_seconds", now.tv_sec);
    lt_put_info("trace_mem", lt_options.trace_mem ? "yes" : "no");
    lt_put_info("trace_freed", lt_options.trace_freed ? "yes" : "no");
    lt_put_number("stack_depth", lt_options.stack_depth);
    lt_observe_put_facts();
    if (lt_options.sample)
        lt_put_number("sample_stacks", lt_options.sample);
    put_settings();
    if (!lt_options.sample_blocks)
        return;
    lt_put_number("sample_every", lt_options.sample_blocks);
    lt_put_number("sample_seed", lt_options.sample_seed);
}
