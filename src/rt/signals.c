/* SPDX-License-Identifier: MIT
 * Signals that end a program, held back while there is something to clean up.
 *
 * There is no handler, and so no state of the process: the signals are blocked on one thread, which
 * looks now and then whether one is pending. It is delivered when the thread lets it through, and
 * does then whatever the program has it do. This only works where no other thread takes the signal
 * first, so the threads of the pool are started with these signals blocked. An ignored signal is
 * not held: blocked it would become pending.
 */
#include "rt/rt_internal.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

void rt_signals_hold(struct rt_held *h, bool wanted) {
    h->any = false;
    sigemptyset(&h->set);
    for (size_t i = 0; wanted && i < COUNT_OF(ending); i++) {
        struct sigaction is;
        if (sigaction(ending[i], NULL, &is) != 0) continue;
        if ((is.sa_flags & SA_SIGINFO) == 0 && is.sa_handler == SIG_IGN) continue;
        sigaddset(&h->set, ending[i]);
        h->any = true;
    }
    if (h->any && pthread_sigmask(SIG_BLOCK, &h->set, &h->before) != 0) h->any = false;
}

int rt_signals_came(const struct rt_held *h) {
    sigset_t pending;
    if (!h->any || sigpending(&pending) != 0) return 0;
    for (size_t i = 0; i < COUNT_OF(ending); i++) {
        if (sigismember(&h->set, ending[i]) == 1 && sigismember(&pending, ending[i]) == 1)
            return ending[i];
    }
    return 0;
}

void rt_signals_release(struct rt_held *h) {
    if (h->any) pthread_sigmask(SIG_SETMASK, &h->before, NULL);
    h->any = false;
}
