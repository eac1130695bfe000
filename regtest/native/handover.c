/* handover.c - threads that wait in system calls while others run on.
 *
 * The main thread sends a block through a pipe that has not room for all of it. Another thread receives it
 * into one of its own and then frees the block that was sent, which it may, since all of it has arrived; the
 * main thread may not even have returned from its call. Then it answers the main thread, which waits for
 * that. Sizes are conspicuous.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SENT = 300007, RECEIVED = 300011, ANSWER = 50021, ROUNDS = 20 };

static int s_there[2], s_back[2];
static char *s_sent;

static void take(char *to, ssize_t have, ssize_t end)
{
    for (ssize_t n; have < end; have += n)
        if ((n = read(s_there[0], to + have, (size_t)(end - have))) <= 0)
            exit(1);
}

static void *receive(void *unused)
{
    char *received = malloc(RECEIVED);
    for (int round = 0; round < ROUNDS; round++) {
        take(received, 0, 1000);
        free(malloc(10)); /* the main thread waits for room now */
        take(received, 1000, SENT);
        free(s_sent);
        if (write(s_back[1], received, 5) != 5)
            exit(1);
    }
    return unused;
}

static void exchange(char *answer)
{
    s_sent = calloc(1, SENT);
    if (write(s_there[1], s_sent, SENT) != SENT || read(s_back[0], answer, 100) != 5)
        exit(1);
}

int main(void)
{
    pthread_t other;
    char *answer = malloc(ANSWER);
    if (pipe(s_there) != 0 || pipe(s_back) != 0 || pthread_create(&other, NULL, receive, NULL) != 0)
        return 1;
    for (int round = 0; round < ROUNDS; round++)
        exchange(answer);
    pthread_join(other, NULL);
    puts("done");
    return 0;
}
