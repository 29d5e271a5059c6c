// Shared by the C programs of the peers: processes forked from one parent, their counters in memory they share,
// the measuring window, a histogram of latencies, and the inner part of the JSON line.
//
// The parent never takes part in what is measured. It forks one process for each member or server, waits until all
// are ready, lets them run, and reads their counters at both ends of the window.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 32
// How long a drain may take, and how long the set-up: a run that takes longer fails.
#define DRAIN_NS 5000000000ull
#define SETUP_NS 30000000000ull

enum phase { PREPARE, RUN, DRAIN, QUIT };

// One process's part of the shared memory. Each counter has one writer and a pair of cache lines of its own (the
// processor fetches them in pairs), so that counting costs a store to a line nobody else holds.
struct slot {
    _Alignas(128) _Atomic uint64_t sent;
    _Alignas(128) _Atomic uint64_t received;
    _Alignas(128) _Atomic int ready;
    _Atomic int port;
};

struct shared {
    _Atomic int phase;
    struct slot slots[PROCESSES_MAX];
    char measured[4096];
};

static struct {
    bool stream;
    const char *variant;
    size_t size;
    double seconds;
    int receivers;
    bool all;
    int servers;
    bool one_core;
    // Bytes of an answer.
    size_t answer;
    // Members of the group: everybody in a stream, the client and the servers in a ping-pong.
    int processes;
} options;

static struct shared *shared;
static pid_t children[PROCESSES_MAX];

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void sleep_ns(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000ull), .tv_nsec = (long)(ns % 1000000000ull)};
    while (nanosleep(&t, &t) == -1 && errno == EINTR) {
    }
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "bench: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

static inline enum phase phase(void) { return (enum phase)atomic_load_explicit(&shared->phase, memory_order_relaxed); }

// Every counter has one writer, so that no locked instruction is needed.
static inline void count(_Atomic uint64_t *counter, uint64_t more) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

static inline void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) == -1) fail("cannot run on processor %d: %s", cpu, strerror(errno));
}

static inline double warm_up_s(void) { return options.seconds / 4 > 1 ? options.seconds / 4 : 1; }

// --- processes ---

static inline void end_children(void) {
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (children[i] > 0) kill(children[i], SIGKILL);
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (children[i] > 0) waitpid(children[i], NULL, 0);
}

static void on_signal(int signal) {
    static const char late[] = "bench: the run did not come to its end in time\n";
    if (signal == SIGALRM && write(2, late, sizeof late - 1) < 0) _exit(1);
    end_children();
    _exit(signal == SIGALRM ? 1 : 128 + signal);
}

// Reads the arguments: stream VARIANT SIZE SECONDS RECEIVERS SENDERS, or pingpong VARIANT SIZE SECONDS SERVERS CORES WAIT ANSWER.
// They come from the script `run`, which has checked them.
static inline void begin(int argc, char **argv) {
    if (argc < 7) fail("started by hand? It wants its arguments from the script `run`");
    options.stream = strcmp(argv[1], "stream") == 0;
    options.variant = argv[2];
    options.size = strtoul(argv[3], NULL, 10);
    options.seconds = strtod(argv[4], NULL);
    if (options.stream) {
        options.receivers = atoi(argv[5]);
        options.all = strcmp(argv[6], "all") == 0;
        options.processes = options.receivers + 1;
    } else {
        options.servers = atoi(argv[5]);
        options.one_core = strcmp(argv[6], "one") == 0;
        options.answer = argc > 8 ? strtoul(argv[8], NULL, 10) : 0;
        options.processes = options.servers + 1;
    }
    if (options.processes > PROCESSES_MAX || options.processes < 2) fail("too many processes");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("no shared memory: %s", strerror(errno));

    // Blocked while one of them is handled: a child must not be forgotten between two handlers.
    struct sigaction action = {.sa_handler = on_signal};
    sigfillset(&action.sa_mask);
    for (const int *s = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGALRM, 0}; *s; s++) sigaction(*s, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    atexit(end_children);
    alarm((unsigned)(warm_up_s() + options.seconds + 50));
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

// Forks the process of a slot. It ends with its parent, whatever ends the parent.
static inline void spawn(int slot, void (*role)(int slot)) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == -1) fail("fork: %s", strerror(errno));
    if (pid == 0) {
        memset(children, 0, sizeof children);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        for (const int *s = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGALRM, 0}; *s; s++) signal(*s, SIG_DFL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (!options.stream) pin(slot == 0 || options.one_core ? 0 : 1);
        role(slot);
        exit(0);
    }
    children[slot] = pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
}

// Nobody ends before the parent says so.
static inline void check_children(void) {
    for (int i = 0; i < PROCESSES_MAX; i++) {
        int status;
        if (children[i] > 0 && waitpid(children[i], &status, WNOHANG) == children[i]) {
            children[i] = 0;
            fail("process %d of the run ended too early", i);
        }
    }
}

static inline void wait_for_flag(_Atomic int *flag) {
    uint64_t end = now_ns() + SETUP_NS;
    while (atomic_load(flag) == 0) {
        check_children();
        if (now_ns() > end) fail("the processes did not find each other within %llu s", SETUP_NS / 1000000000ull);
        sleep_ns(1000000);
    }
}

static inline void wait_ready(int slot) { wait_for_flag(&shared->slots[slot].ready); }

static inline void set_ready(int slot) { atomic_store(&shared->slots[slot].ready, 1); }

// For a process with nothing to do before the start.
static inline void wait_for_run(void) {
    while (phase() == PREPARE) sleep_ns(200000);
}

// Sleeps in pieces, so that a process that dies ends the run.
static inline void watch(double seconds) {
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    for (uint64_t now = now_ns(); now < end; now = now_ns()) {
        sleep_ns(end - now > 200000000 ? 200000000 : end - now);
        check_children();
    }
}

// Lets every process end by itself, then makes it.
static inline void quit(void) {
    atomic_store(&shared->phase, QUIT);
    uint64_t end = now_ns() + 2000000000ull;
    for (int i = 0; i < PROCESSES_MAX; i++) {
        while (children[i] > 0 && now_ns() < end) {
            if (waitpid(children[i], NULL, WNOHANG) == children[i])
                children[i] = 0;
            else
                sleep_ns(1000000);
        }
    }
    end_children();
    memset(children, 0, sizeof children);
}

// --- streams ---

static inline uint64_t total_sent(void) {
    uint64_t sum = 0;
    for (int i = 0; i < options.processes; i++) sum += atomic_load(&shared->slots[i].sent);
    return sum;
}

// Measures a stream whose processes are all ready, and prints it. Slot 0 is the sender; if all send, it receives too.
static inline void measure_stream(void) {
    int first = options.all ? 0 : 1;
    uint64_t before[PROCESSES_MAX], after[PROCESSES_MAX];
    atomic_store(&shared->phase, RUN);
    watch(warm_up_s());

    uint64_t start = now_ns(), sent_before = total_sent();
    for (int i = first; i < options.processes; i++) before[i] = atomic_load(&shared->slots[i].received);
    watch(options.seconds);
    uint64_t sent_after = total_sent();
    for (int i = first; i < options.processes; i++) after[i] = atomic_load(&shared->slots[i].received);
    double seconds = (double)(now_ns() - start) / 1e9;

    atomic_store(&shared->phase, DRAIN);
    uint64_t lost = 0;
    for (uint64_t end = now_ns() + DRAIN_NS, settled = 0; now_ns() < end && settled < 20;) {
        // A sender may be inside its last send when the phase ends: the sum has to stand still for a while.
        uint64_t sent = total_sent(), missing = 0;
        for (int i = first; i < options.processes; i++) missing += sent - atomic_load(&shared->slots[i].received);
        settled = missing == 0 && sent == total_sent() ? settled + 1 : 0;
        lost = missing;
        sleep_ns(2000000);
        check_children();
    }
    quit();

    double mean = 0;
    for (int i = first; i < options.processes; i++) mean += (double)(after[i] - before[i]) / seconds;
    mean /= options.processes - first;
    if (mean <= 0) fail("nothing was delivered in the window");
    printf("\"size\":%zu,\"receivers\":%d,\"senders\":\"%s\",\"msgs_per_s\":%.1f,\"per_receiver\":[", options.size,
           options.receivers, options.all ? "all" : "one", mean);
    for (int i = first; i < options.processes; i++)
        printf("%s%.1f", i == first ? "" : ",", (double)(after[i] - before[i]) / seconds);
    printf("],\"sent_per_s\":%.1f,\"lost\":%llu\n", (double)(sent_after - sent_before) / seconds, (unsigned long long)lost);
}

// --- ping-pong ---

// Buckets of at most 1/128 of their value: fine enough for every figure, bounded whatever the length of the run.
#define FINE_BITS 8
#define FINE (1u << FINE_BITS)
static uint64_t histogram[(64 - FINE_BITS + 1) * FINE];
static uint64_t samples;

static inline void record(uint64_t ns) {
    unsigned shift = ns < FINE ? 0 : 63 - (unsigned)__builtin_clzll(ns) - FINE_BITS + 1;
    histogram[shift * FINE + (ns >> shift)]++;
    samples++;
}

static inline uint64_t percentile(double part) {
    uint64_t wanted = (uint64_t)(part * (double)samples), seen = 0;
    for (unsigned i = 0; i < sizeof histogram / sizeof *histogram; i++) {
        seen += histogram[i];
        if (histogram[i] && seen > wanted) {
            unsigned shift = i / FINE;
            return ((uint64_t)(i % FINE) << shift) + (shift ? 1ull << (shift - 1) : 0);
        }
    }
    return 0;
}

// In the client's process: warms up, then times one exchange after the other for the measuring time.
static inline void measure_exchanges(void (*exchange)(void)) {
    for (uint64_t end = now_ns() + (uint64_t)(warm_up_s() * 1e9); now_ns() < end;) exchange();
    uint64_t before = now_ns(), end = before + (uint64_t)(options.seconds * 1e9);
    while (before < end) {
        exchange();
        uint64_t after = now_ns();
        record(after - before);
        before = after;
    }
    snprintf(shared->measured, sizeof shared->measured,
             "\"size\":%zu,\"answer\":%zu,\"wait\":\"block\",\"cores\":\"%s\",\"servers\":%d,\"p50_ns\":%llu,"
             "\"p99_ns\":%llu,\"p999_ns\":%llu,\"count\":%llu",
             options.size, options.answer, options.one_core ? "one" : "two", options.servers, (unsigned long long)percentile(0.5),
             (unsigned long long)percentile(0.99), (unsigned long long)percentile(0.999), (unsigned long long)samples);
}

// In the parent, when all are ready: waits for the client, slot 0, and prints what it measured.
static inline void measure_pingpong(void) {
    int status;
    atomic_store(&shared->phase, RUN);
    while (waitpid(children[0], &status, 0) == -1 && errno == EINTR) {
    }
    children[0] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("the client failed");
    if (shared->measured[0] == '\0') fail("nothing was measured");
    quit();
    printf("%s\n", shared->measured);
}
