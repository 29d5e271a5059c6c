// Core NATS: one nats-server, and a client of its text protocol that does what the workload needs and no more.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

// Publishes are gathered up to this many bytes, as the ready-made clients do.
enum { WRITE_BYTES = 32768, READ_BYTES = 65536, LINE_BYTES = 128 };

static int server_slot;
static char *payload;

// --- the server ---

static void server(int slot) {
    (void)slot;
    char log[512];
    snprintf(log, sizeof log, "%s/server.log", getenv("BENCH_DIRECTORY"));
    execlp("nats-server", "nats-server", "--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir",
           getenv("BENCH_DIRECTORY"), "--log", log, (char *)NULL);
    fail("cannot start nats-server: %s", strerror(errno));
}

// The server takes a free port, and writes it to a file named after its process.
static int server_port(void) {
    char path[512], text[512];
    snprintf(path, sizeof path, "%s/nats-server_%d.ports", getenv("BENCH_DIRECTORY"), children[server_slot]);
    for (uint64_t end = now_ns() + SETUP_NS; now_ns() < end; sleep_ns(5000000)) {
        check_children();
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        const char *at = strstr(text, "127.0.0.1:");
        // The closing quote: the file is complete up to here.
        if (at != NULL && strchr(at, '"') != NULL) return atoi(at + strlen("127.0.0.1:"));
    }
    fail("nats-server did not say its port");
}

// --- a connection ---

struct connection {
    int fd;
    char *buffer;
    size_t start, end, room;
};

struct message {
    // The reply subject, or empty.
    char reply[64];
    char *payload;
    size_t length;
};

static void write_all(struct connection *c, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(c->fd, bytes, length);
        if (written == -1 && errno == EINTR) continue;
        if (written == -1) fail("the server closed the connection: %s", strerror(errno));
        bytes += written;
        length -= (size_t)written;
    }
}

// Reads what there is; false if nothing came (the timeout of the socket, or at once with MSG_DONTWAIT).
static bool fill(struct connection *c, int flags) {
    if (c->start > 0) {
        memmove(c->buffer, c->buffer + c->start, c->end - c->start);
        c->end -= c->start;
        c->start = 0;
    }
    ssize_t got = recv(c->fd, c->buffer + c->end, c->room - c->end, flags);
    if (got == -1 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (got <= 0) fail("the server cut this client off (a receiver too far behind?)");
    c->end += (size_t)got;
    return true;
}

enum event { NOTHING, MESSAGE, PONG };

// The next thing in the buffer, if it is complete. A PING of the server is answered on the way.
static enum event parse(struct connection *c, struct message *m) {
    for (;;) {
        char *line = c->buffer + c->start;
        char *newline = memchr(line, '\n', c->end - c->start);
        if (newline == NULL) return NOTHING;
        size_t line_length = (size_t)(newline + 1 - line);
        if (strncmp(line, "MSG ", 4) == 0) {
            // MSG subject subscription [reply] length
            char *word[5] = {NULL};
            int words = 0;
            for (char *at = line; words < 5 && at < newline;) {
                word[words++] = at;
                while (at < newline && *at != ' ' && *at != '\r') at++;
                while (at < newline && (*at == ' ' || *at == '\r')) at++;
            }
            if (words < 4) fail("not understood: %.*s", (int)line_length, line);
            m->length = strtoul(word[words - 1], NULL, 10);
            if (c->end - c->start < line_length + m->length + 2) return NOTHING;
            m->reply[0] = '\0';
            if (words == 5) snprintf(m->reply, sizeof m->reply, "%.*s", (int)(word[4] - word[3] - 1), word[3]);
            m->payload = newline + 1;
            c->start += line_length + m->length + 2;
            return MESSAGE;
        }
        c->start += line_length;
        if (strncmp(line, "PING", 4) == 0)
            write_all(c, "PONG\r\n", 6);
        else if (strncmp(line, "PONG", 4) == 0)
            return PONG;
        else if (strncmp(line, "-ERR", 4) == 0)
            fail("the server says %.*s", (int)line_length - 2, line);
    }
}

static void wait_pong(struct connection *c) {
    struct message m;
    write_all(c, "PING\r\n", 6);
    while (parse(c, &m) != PONG) fill(c, 0);
}

static struct connection connection_of(const char *subscription) {
    struct connection c = {.room = READ_BYTES + LINE_BYTES + options.size};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atomic_load(&shared->slots[server_slot].port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_usec = 100000};
    int on = 1;
    c.buffer = malloc(c.room);
    c.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c.fd, (struct sockaddr *)&address, sizeof address) == -1) fail("no server: %s", strerror(errno));
    setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    static const char hello[] = "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\"}\r\n";
    write_all(&c, hello, strlen(hello));
    if (subscription != NULL) {
        char line[LINE_BYTES];
        write_all(&c, line, (size_t)snprintf(line, sizeof line, "SUB %s 1\r\n", subscription));
    }
    wait_pong(&c);
    return c;
}

// --- stream ---

static void *send_all(void *argument) {
    int slot = *(int *)argument;
    struct connection c = connection_of(NULL);
    char line[LINE_BYTES];
    size_t line_length = (size_t)snprintf(line, sizeof line, "PUB stream %zu\r\n", options.size);
    size_t each = line_length + options.size + 2;
    size_t batch = each > WRITE_BYTES ? 1 : WRITE_BYTES / each;
    char *bytes = malloc(batch * each);
    for (size_t i = 0; i < batch; i++) {
        memcpy(bytes + i * each, line, line_length);
        memset(bytes + i * each + line_length, 'x', options.size);
        memcpy(bytes + (i + 1) * each - 2, "\r\n", 2);
    }
    set_ready(slot);
    wait_for_run();
    struct message m;
    while (phase() == RUN) {
        write_all(&c, bytes, batch * each);
        count(&shared->slots[slot].sent, batch);
        // The server asks now and then whether this client lives.
        if (fill(&c, MSG_DONTWAIT)) parse(&c, &m);
    }
    while (phase() != QUIT) sleep_ns(1000000);
    return NULL;
}

static void receive(int slot) {
    struct connection c = connection_of("stream");
    struct message m;
    if (!options.all) set_ready(slot);
    atomic_store(&shared->slots[slot].port, 1);
    while (phase() != QUIT) {
        while (parse(&c, &m) == MESSAGE) count(&shared->slots[slot].received, 1);
        fill(&c, 0);
    }
}

static void *receive_all(void *argument) {
    receive(*(int *)argument);
    return NULL;
}

static void member(int slot) {
    if (!options.all) {
        if (slot == 0)
            send_all(&slot);
        else
            receive(slot);
        return;
    }
    pthread_t receiver;
    if (pthread_create(&receiver, NULL, receive_all, &slot) != 0) fail("no thread");
    while (atomic_load(&shared->slots[slot].port) == 0) sleep_ns(1000000);
    send_all(&slot);
    pthread_join(receiver, NULL);
}

// --- ping-pong ---

static void publish(struct connection *c, const char *subject, const char *reply, const char *bytes, size_t length) {
    static char *buffer;
    if (buffer == NULL) buffer = malloc(options.size + 2 * LINE_BYTES);
    size_t line = (size_t)snprintf(buffer, 2 * LINE_BYTES, "PUB %s %s %zu\r\n", subject, reply, length);
    memcpy(buffer + line, bytes, length);
    memcpy(buffer + line + length, "\r\n", 2);
    write_all(c, buffer, line + length + 2);
}

static void await_message(struct connection *c, struct message *m) {
    while (parse(c, m) != MESSAGE) fill(c, 0);
    if (m->length != options.size) fail("a message of %zu bytes", m->length);
}

static void responder(int slot) {
    char subject[32];
    snprintf(subject, sizeof subject, "ping.%d", slot);
    struct connection c = connection_of(subject);
    set_ready(slot);
    for (;;) {
        struct message m;
        await_message(&c, &m);
        publish(&c, m.reply, "", m.payload, m.length);
    }
}

static struct connection requests;

static void exchange(void) {
    for (int i = 1; i <= options.servers; i++) {
        struct message m;
        char subject[32];
        snprintf(subject, sizeof subject, "ping.%d", i);
        publish(&requests, subject, "pong", payload, options.size);
        await_message(&requests, &m);
    }
}

static void client(int slot) {
    requests = connection_of("pong");
    payload = calloc(1, options.size);
    set_ready(slot);
    wait_for_run();
    measure_exchanges(exchange);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    server_slot = options.processes;
    spawn(server_slot, server);
    atomic_store(&shared->slots[server_slot].port, server_port());
    for (int i = 0; i < options.processes; i++) spawn(i, options.stream ? member : i == 0 ? client : responder);
    for (int i = 0; i < options.processes; i++) wait_ready(i);
    if (options.stream)
        measure_stream();
    else
        measure_pingpong();
}
