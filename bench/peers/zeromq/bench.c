// ZeroMQ: XPUB that blocks instead of dropping, to SUB; and REQ/REP.
#include "bench.h"

#include <pthread.h>
#include <zmq.h>

enum { HIGH_WATER = 1000 };

static void *context;
static char *payload;

static void check(int result, const char *what) {
    if (result == -1) fail("%s: %s", what, zmq_strerror(zmq_errno()));
}

static void *socket_of(int type) {
    if (context == NULL) context = zmq_ctx_new();
    void *socket = zmq_socket(context, type);
    if (socket == NULL) fail("zmq_socket: %s", zmq_strerror(zmq_errno()));
    int none = 0, high_water = HIGH_WATER;
    check(zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none), "ZMQ_LINGER");
    check(zmq_setsockopt(socket, ZMQ_SNDHWM, &high_water, sizeof high_water), "ZMQ_SNDHWM");
    check(zmq_setsockopt(socket, ZMQ_RCVHWM, &high_water, sizeof high_water), "ZMQ_RCVHWM");
    return socket;
}

// Where a slot listens: a port the system chose, or an abstract UNIX socket, which leaves no file behind.
static void listen_at(void *socket, int slot) {
    char at[128];
    size_t length = sizeof at;
    if (strcmp(options.variant, "ipc") == 0) {
        snprintf(at, sizeof at, "ipc://@phalanx-zeromq-%d-%d", getppid(), slot);
        check(zmq_bind(socket, at), at);
        atomic_store(&shared->slots[slot].port, 1);
    } else {
        check(zmq_bind(socket, "tcp://127.0.0.1:*"), "zmq_bind");
        check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, at, &length), "ZMQ_LAST_ENDPOINT");
        atomic_store(&shared->slots[slot].port, atoi(strrchr(at, ':') + 1));
    }
}

static void connect_to(void *socket, int slot) {
    char at[128];
    while (atomic_load(&shared->slots[slot].port) == 0) sleep_ns(1000000);
    if (strcmp(options.variant, "ipc") == 0)
        snprintf(at, sizeof at, "ipc://@phalanx-zeromq-%d-%d", getppid(), slot);
    else
        snprintf(at, sizeof at, "tcp://127.0.0.1:%d", atomic_load(&shared->slots[slot].port));
    check(zmq_connect(socket, at), at);
}

// --- stream ---

static void receive(int slot) {
    void *socket = socket_of(ZMQ_SUB);
    int patience_ms = 100;
    check(zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms), "ZMQ_RCVTIMEO");
    check(zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0), "ZMQ_SUBSCRIBE");
    for (int i = 0; i < (options.all ? options.processes : 1); i++) connect_to(socket, i);
    // A sender knows by itself who has subscribed, and is ready when all have; a mere receiver is ready now.
    if (slot != 0 && !options.all) set_ready(slot);

    zmq_msg_t message;
    zmq_msg_init(&message);
    while (phase() != QUIT) {
        int length = zmq_msg_recv(&message, socket, 0);
        if (length == -1 && zmq_errno() == EAGAIN) continue;
        check(length, "zmq_msg_recv");
        if ((size_t)length != options.size) fail("a message of %d bytes", length);
        count(&shared->slots[slot].received, 1);
    }
    zmq_close(socket);
}

static void *send_all(void *argument) {
    int slot = *(int *)argument;
    void *socket = socket_of(ZMQ_XPUB);
    int yes = 1, patience_ms = 100;
    check(zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &yes, sizeof yes), "ZMQ_XPUB_NODROP");
    check(zmq_setsockopt(socket, ZMQ_XPUB_VERBOSE, &yes, sizeof yes), "ZMQ_XPUB_VERBOSE");
    check(zmq_setsockopt(socket, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms), "ZMQ_SNDTIMEO");
    listen_at(socket, slot);
    char subscription[2];
    for (int i = 0; i < (options.all ? options.processes : options.receivers); i++)
        check(zmq_recv(socket, subscription, sizeof subscription, 0), "a subscription");
    set_ready(slot);
    wait_for_run();
    while (phase() == RUN) {
        int length = zmq_send(socket, payload, options.size, 0);
        if (length == -1 && zmq_errno() == EAGAIN) continue;
        check(length, "zmq_send");
        count(&shared->slots[slot].sent, 1);
    }
    // What is still queued goes out while the socket is open.
    while (phase() != QUIT) sleep_ns(1000000);
    zmq_close(socket);
    return NULL;
}

static void member(int slot) {
    payload = calloc(1, options.size);
    context = zmq_ctx_new();
    if (!options.all) {
        if (slot == 0)
            send_all(&slot);
        else
            receive(slot);
    } else {
        // Two threads: one that waits for room must not keep the other from making it.
        pthread_t sender;
        if (pthread_create(&sender, NULL, send_all, &slot) != 0) fail("no thread");
        receive(slot);
        pthread_join(sender, NULL);
    }
    zmq_ctx_term(context);
}

// --- ping-pong ---

static void server(int slot) {
    void *socket = socket_of(ZMQ_REP);
    listen_at(socket, slot);
    set_ready(slot);
    zmq_msg_t message;
    zmq_msg_init(&message);
    for (;;) {
        check(zmq_msg_recv(&message, socket, 0), "zmq_msg_recv");
        check(zmq_msg_send(&message, socket, 0), "zmq_msg_send");
    }
}

static void *requests[PROCESSES_MAX];

static void exchange(void) {
    for (int i = 1; i <= options.servers; i++) {
        check(zmq_send(requests[i], payload, options.size, 0), "zmq_send");
        check(zmq_recv(requests[i], payload, options.size, 0), "zmq_recv");
    }
}

static void client(int slot) {
    payload = calloc(1, options.size);
    for (int i = 1; i <= options.servers; i++) {
        requests[i] = socket_of(ZMQ_REQ);
        connect_to(requests[i], i);
    }
    set_ready(slot);
    wait_for_run();
    measure_exchanges(exchange);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < options.processes; i++) spawn(i, options.stream ? member : i == 0 ? client : server);
    for (int i = 0; i < options.processes; i++) wait_ready(i);
    if (options.stream)
        measure_stream();
    else
        measure_pingpong();
}
