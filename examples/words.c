/* words.c - counts the words of a text, and takes long: it makes garbage, and it reads too much.
 *
 * The words are in a list, the newest first. Each word of the text is copied before it is looked up.
 * docs/tutorial.md finds both faults. `words N` makes a text of N words (default 20000); each run makes the same text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    struct word *next;
    int count;
    char text[16];
};

static struct word *s_words;

static void copy(char *to, const char *begin, const char *end)
{
    while (begin < end)
        *to++ = *begin++;
    *to = '\0';
}

static int equal(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return *a == *b;
}

static struct word *find(const char *text)
{
    struct word *w = s_words;
    while (w != NULL && !equal(w->text, text))
        w = w->next;
    return w;
}

static void count(const char *begin, const char *end)
{
    char *text = malloc(16);
    copy(text, begin, end);
    struct word *w = find(text);
    if (w == NULL) {
        w = malloc(sizeof *w);
        *w = (struct word){.next = s_words};
        copy(w->text, begin, end);
        s_words = w;
    }
    w->count++;
    free(text);
}

static char *make_text(int words)
{
    char *text = malloc((size_t)words * 8 + 1), *end = text;
    unsigned seed = 1;
    for (int i = 0; i < words; i++) {
        seed = seed * 1103515245 + 12345;
        end += sprintf(end, "w%u ", (seed >> 16) % 700);
    }
    return text;
}

int main(int argc, char **argv)
{
    char *text = make_text(argc > 1 ? atoi(argv[1]) : 20000);
    for (char *begin = text, *end; *begin != '\0'; begin = end + 1) {
        end = begin;
        while (*end != ' ')
            end++;
        count(begin, end);
    }
    int different = 0, most = 0;
    for (struct word *w = s_words, *next; w != NULL; w = next) {
        next = w->next;
        different++;
        most = w->count > most ? w->count : most;
        free(w);
    }
    free(text);
    printf("%d words, the most common one %d times\n", different, most);
    return 0;
}
