/* list.c - steve-replay --list: all drivers, how each is confined, or why it cannot be used.
 *
 * Each driver is opened in its own process, so a broken driver affects only its own line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/confinement.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/sdk/driver.h"
#include "drivers/supervisor/find_driver.h"
#include "drivers/supervisor/session.h"

#include <inttypes.h>
#include <stdlib.h>

struct line {
    struct shared_info info;
    char reason[512]; /* "" = usable */
};

static void look_at(const struct found *f, struct line *line)
{
    *line = (struct line){0};
    if (f->path[0]) {
        if (session_info(f->path, &line->info, line->reason, sizeof line->reason))
            line->reason[0] = 0;
        else if (!line->reason[0])
            snprintf(line->reason, sizeof line->reason, "cannot be used");
        return;
    }
    const struct own_driver *own = find_own(f->name);
    snprintf(line->reason, sizeof line->reason, "not built%s%s",
             own && *own->package ? ": needs Debian's " : "", own ? own->package : "");
}

static const char *library_of(const struct found *f)
{
    const struct own_driver *own = find_own(f->name);
    return own ? own->library : "";
}

static void print_text(const struct found *f, const struct line *l)
{
    if (l->reason[0]) {
        printf("%-12s missing: %s\n", f->name, l->reason);
        return;
    }
    printf("%-12s %s\n", f->name, l->info.description);
    const char *library = library_of(f);
    printf("%-12s %s%s%s%s%s\n", "", confinement_text(l->info.confinement),
           l->info.package[0] ? "; version " : "", l->info.package, *library ? "; LD_PRELOAD=" : "", library);
}

static void print_json(const struct found *f, const struct line *l, bool first)
{
    printf("%s{\"name\": ", first ? "[" : ",\n ");
    json_string(stdout, f->name);
    printf(", \"available\": %s, \"reason\": ", l->reason[0] ? "false" : "true");
    json_string(stdout, l->reason);
    printf(", \"path\": ");
    json_string(stdout, f->path);
    printf(", \"description\": ");
    json_string(stdout, l->info.description);
    printf(", \"version\": ");
    json_string(stdout, l->info.package);
    printf(", \"confined\": %s, \"confinement\": ", is_confined(l->info.confinement) ? "true" : "false");
    json_string(stdout, confinement_name(l->info.confinement));
    printf(", \"library\": ");
    json_string(stdout, library_of(f));
    printf(", \"least_heap\": %" PRIu64 ", \"walks\": %s, \"moves\": %s}", l->info.least_heap,
           l->info.walks ? "true" : "false", l->info.flags & STEVE_MOVES ? "true" : "false");
}

int command_list(const struct options *o)
{
    struct found *list = calloc(FIND_MOST, sizeof *list);
    if (!list)
        return EXIT_BAD;
    size_t n = find_all(list);
    for (size_t i = 0; i < n; i++) {
        struct line line;
        look_at(&list[i], &line);
        if (o->json)
            print_json(&list[i], &line, i == 0);
        else
            print_text(&list[i], &line);
    }
    if (o->json)
        printf("]\n");
    free(list);
    return EXIT_DONE;
}
