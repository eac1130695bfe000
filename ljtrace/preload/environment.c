/* environment.c - gives the program the environment that it has without Valgrind.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's LD_PRELOAD, and what Debian's script /usr/bin/valgrind sets (a folder at the end of LD_LIBRARY_PATH, and two
 * variables that switch off the pools of libstdc++), would change what the program does: it may copy or print its
 * environment. The dynamic linker has read the first two already. For a program that this one executes and that is recorded,
 * Valgrind sets its variables again.
 *
 * The object is linked with -z initfirst, so this runs before any other constructor, with glibc also before libc knows the
 * environment. musl knows it then, and calls constructors without arguments. There is no libc to call.
 */
#include <stdbool.h>
#include <stddef.h>

/* The text after the prefix; NULL = the text begins in another way. */
static char *after(char *text, const char *prefix)
{
    for (; *prefix; text++, prefix++)
        if (*text != *prefix)
            return NULL;
    return text;
}

/* The place of a variable in the environment, which may be its end. */
static char **place_of(char **environment, const char *name)
{
    while (*environment && !after(*environment, name))
        environment++;
    return environment;
}

static void variable_forget(char **place)
{
    for (; *place; place++)
        place[0] = place[1];
}

/* Does a name of LD_PRELOAD, which ends at a colon or with the text, belong to Valgrind? */
static bool is_valgrinds(char *name)
{
    for (; *name && *name != ':'; name++)
        if (after(name, "/vgpreload_"))
            return true;
    return false;
}

/* Remove Valgrind's libraries, which are at the beginning. */
static void restore_preload(char **environment)
{
    char **place = place_of(environment, "LD_PRELOAD="),
         *value = *place ? after(*place, "LD_PRELOAD=") : NULL;
    if (!value || !is_valgrinds(value))
        return;
    char *from = value;
    while (is_valgrinds(from)) {
        while (*from && *from != ':')
            from++;
        from += *from == ':';
    }
    if (!*from) {
        variable_forget(place);
        return;
    }
    while ((*value++ = *from++))
        ;
}

/* Remove the folder of Debian's script from the end of LD_LIBRARY_PATH. Returns false if it is not there. */
static bool restore_library_path(char **environment)
{
    static const char name[] = "LD_LIBRARY_PATH=", folder[] = "/usr/lib/debug";
    char **place = place_of(environment, name), *value = *place ? after(*place, name) : NULL, *end = value;
    if (!value)
        return false;
    while (*end)
        end++;
    if ((size_t)(end - value) < sizeof folder - 1)
        return false;
    char *at = end - (sizeof folder - 1);
    if (!after(at, folder) || (at > value && at[-1] != ':'))
        return false;
    if (at == value)
        variable_forget(place);
    else
        at[-1] = 0;
    return true;
}

/* Nobody else sets both variables: compilers of this century use the second one only. */
static void forget_script(char **environment)
{
    static const char older[] = "GLIBCPP_FORCE_NEW=1", newer[] = "GLIBCXX_FORCE_NEW=1";
    if (*place_of(environment, older) && *place_of(environment, newer) && restore_library_path(environment)) {
        variable_forget(place_of(environment, older));
        variable_forget(place_of(environment, newer));
    }
}

extern char **__environ __attribute__((weak));

__attribute__((constructor)) static void begin(int argc, char **argv, char **arguments)
{
    char **environment = &__environ && __environ ? __environ : arguments;
    (void)argc, (void)argv;
    restore_preload(environment);
    forget_script(environment);
}
