/* interrupts.c - a library that sends the calling thread a signal far more often than a profiler does.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int interrupt(int signal_number, int microseconds);

/* Send the signal each time so many microseconds have passed; 0 = SIGRTMAX. Returns 0 on success. Without a handler, the
 * signal is ignored. */
int interrupt(int signal_number, int microseconds)
{
    const struct itimerspec when = {{0, microseconds * 1000}, {0, microseconds * 1000}};
    struct sigaction now;
    struct sigevent event;
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = signal_number ? signal_number : SIGRTMAX;
    event._sigev_un._tid = gettid();
    if (sigaction(event.sigev_signo, NULL, &now) != 0)
        return -1;
    if (now.sa_handler == SIG_DFL)
        signal(event.sigev_signo, SIG_IGN);
    return timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL);
}
