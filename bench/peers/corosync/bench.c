// Corosync CPG, agreed order: one client on each node, in the node's network namespace (where its daemon's sockets are).
#include "bench.h"

#include <corosync/cpg.h>

// Own messages under way. The daemon alone would let more of them in, and udpu then falls to some hundreds of messages a
// second when all send. And how many are sent between two looks at what has arrived.
enum { WINDOW = 2000, BATCH = 64 };

static cpg_handle_t handle;
static int self;
static size_t members;
static uint64_t own_sent, own_delivered;

static void on_deliver(cpg_handle_t h, const struct cpg_name *group, uint32_t node, uint32_t pid, void *message,
                       size_t length) {
    (void)h, (void)group, (void)pid, (void)message;
    if (length != options.size) fail("a message of %zu bytes, not %zu", length, options.size);
    count(&shared->slots[self].received, 1);
    own_delivered += node == (uint32_t)self + 1;
}

static void on_view(cpg_handle_t h, const struct cpg_name *group, const struct cpg_address *list, size_t list_length,
                    const struct cpg_address *left, size_t left_length, const struct cpg_address *joined,
                    size_t joined_length) {
    (void)h, (void)group, (void)list, (void)left, (void)left_length, (void)joined, (void)joined_length;
    members = list_length;
    if (phase() == RUN && list_length != (size_t)options.processes) fail("the group fell apart: %zu members", list_length);
}

static struct pollfd readable = {.events = POLLIN};

static void dispatch(void) {
    cs_error_t error = cpg_dispatch(handle, CS_DISPATCH_ALL);
    if (error != CS_OK && error != CS_ERR_TRY_AGAIN) fail("cpg_dispatch: error %d", error);
}

static void dispatch_or_wait(int timeout_ms) {
    if (poll(&readable, 1, timeout_ms) > 0) dispatch();
}

static bool multicast(void *payload) {
    struct iovec part = {.iov_base = payload, .iov_len = options.size};
    cs_error_t error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
    if (error == CS_ERR_TRY_AGAIN) return false;
    if (error != CS_OK) fail("cpg_mcast_joined: error %d", error);
    return true;
}

static void join(void) {
    char path[64];
    snprintf(path, sizeof path, "/run/netns/n%d", self + 1);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace == -1 || setns(namespace, CLONE_NEWNET) == -1) fail("%s: %s", path, strerror(errno));
    close(namespace);

    cpg_callbacks_t callbacks = {.cpg_deliver_fn = on_deliver, .cpg_confchg_fn = on_view};
    uint64_t end = now_ns() + SETUP_NS;
    while (cpg_initialize(&handle, &callbacks) != CS_OK) {
        if (now_ns() > end) fail("the daemon of node %d does not answer", self + 1);
        sleep_ns(50000000);
    }
    struct cpg_name group = {.length = 5, .value = "bench"};
    cs_error_t error;
    while ((error = cpg_join(handle, &group)) == CS_ERR_TRY_AGAIN) sleep_ns(20000000);
    if (error != CS_OK) fail("cpg_join: error %d", error);
    if (cpg_fd_get(handle, &readable.fd) != CS_OK) fail("cpg_fd_get");
    while (members != (size_t)options.processes) dispatch_or_wait(100);
    set_ready(self);
}

static void leave(void) { cpg_finalize(handle); }

static void member(int slot) {
    self = slot;
    join();
    while (phase() == PREPARE) dispatch_or_wait(10);
    if (options.stream && (options.all || slot == 0)) {
        char *payload = calloc(1, options.size);
        while (phase() == RUN) {
            // Own deliveries are taken in between: a client that does not read is held back as a whole.
            int i = 0;
            while (i < BATCH && own_sent - own_delivered < WINDOW && multicast(payload)) i++, own_sent++;
            count(&shared->slots[slot].sent, (uint64_t)i);
            if (i == BATCH)
                dispatch();
            else
                dispatch_or_wait(1);
        }
    }
    while (phase() != QUIT) dispatch_or_wait(20);
    leave();
}

static char *ping;

static void exchange(void) {
    uint64_t wanted = own_delivered + 1;
    while (!multicast(ping)) dispatch_or_wait(1);
    while (own_delivered != wanted) dispatch_or_wait(1000);
}

static void client(int slot) {
    self = slot;
    ping = calloc(1, options.size);
    join();
    while (phase() == PREPARE) dispatch_or_wait(10);
    measure_exchanges(exchange);
    // From here on a change of the membership is no failure.
    atomic_store(&shared->phase, QUIT);
    leave();
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < options.processes; i++) spawn(i, options.stream || i > 0 ? member : client);
    for (int i = 0; i < options.processes; i++) wait_ready(i);
    if (options.stream)
        measure_stream();
    else
        measure_pingpong();
}
