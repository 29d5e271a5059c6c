// Sun RPC by libtirpc: a procedure that takes SIZE bytes and gives ANSWER back. No rpcbind: the ports are handed on.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <rpc/rpc.h>

enum { PROGRAM = 0x20007068, VERSION = 1, PROCEDURE = 1, BUFFER = 65000, LONGEST = 16 << 20 };

static bool udp;
static char argument[LONGEST], answer[LONGEST];
static char *argument_at = argument, *answer_at = answer;
static u_int argument_length, answer_length;

static bool_t xdr_argument(XDR *xdrs) { return xdr_bytes(xdrs, &argument_at, &argument_length, LONGEST); }

// Without bytes there is nothing at all, not even their count.
static bool_t xdr_answer(XDR *xdrs) {
    return options.answer == 0 || xdr_bytes(xdrs, &answer_at, &answer_length, LONGEST);
}

static void serve_call(struct svc_req *request, SVCXPRT *transport) {
    if (request->rq_proc != PROCEDURE) {
        svcerr_noproc(transport);
    } else if (!svc_getargs(transport, (xdrproc_t)xdr_argument, NULL)) {
        svcerr_decode(transport);
    } else {
        svc_sendreply(transport, (xdrproc_t)xdr_answer, NULL);
    }
}

// An answer of several writes would wait for the receipt of each.
static void without_delay(int fd) {
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == -1) fail("TCP_NODELAY: %s", strerror(errno));
}

static void server(int slot) {
    answer_length = (u_int)options.answer;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (fd == -1 || bind(fd, (struct sockaddr *)&address, length) == -1) fail("no socket: %s", strerror(errno));
    getsockname(fd, (struct sockaddr *)&address, &length);
    // Connections have it from the socket that they came by.
    if (!udp) without_delay(fd);
    if (!udp && listen(fd, 16) == -1) fail("listen: %s", strerror(errno));
    SVCXPRT *transport = udp ? svcudp_bufcreate(fd, BUFFER, BUFFER) : svctcp_create(fd, BUFFER, BUFFER);
    // Protocol 0: known to nobody but this process.
    if (transport == NULL || !svc_register(transport, PROGRAM, VERSION, serve_call, 0)) fail("no server");
    atomic_store(&shared->slots[slot].port, ntohs(address.sin_port));
    set_ready(slot);
    svc_run();
    fail("the server ended");
}

static CLIENT *clients[PROCESSES_MAX];

static void call(CLIENT *client) {
    struct timeval patience = {.tv_sec = 5};
    enum clnt_stat status =
        clnt_call(client, PROCEDURE, (xdrproc_t)xdr_argument, NULL, (xdrproc_t)xdr_answer, NULL, patience);
    if (status != RPC_SUCCESS) fail("the call failed: %s", clnt_sperrno(status));
    if (answer_length != options.answer) fail("%u bytes came back of %zu", answer_length, options.answer);
}

static void exchange(void) {
    for (int i = 1; i <= options.servers; i++) call(clients[i]);
}

static void client(int slot) {
    argument_length = (u_int)options.size;
    for (int i = 1; i <= options.servers; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)atomic_load(&shared->slots[i].port)),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = RPC_ANYSOCK;
        struct timeval again = {.tv_sec = 1};
        clients[i] = udp ? clntudp_bufcreate(&address, PROGRAM, VERSION, again, &fd, BUFFER, BUFFER)
                         : clnttcp_create(&address, PROGRAM, VERSION, &fd, BUFFER, BUFFER);
        if (clients[i] == NULL) fail("%s", clnt_spcreateerror("no client"));
        if (!udp) without_delay(fd);
    }
    set_ready(slot);
    wait_for_run();
    measure_exchanges(exchange);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    udp = strcmp(options.variant, "udp") == 0;
    for (int i = 1; i <= options.servers; i++) spawn(i, server);
    for (int i = 1; i <= options.servers; i++) wait_ready(i);
    spawn(0, client);
    wait_ready(0);
    measure_pingpong();
}
