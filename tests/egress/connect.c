/* What programs in C expect of a socket that they connect to a granted host. The words are three ports of 127.0.0.1: of
 * a server that says `hello` and ends the connection, of none, and of one that does not answer. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 20000
#define DATA 0x1122334455667788ull

static struct sockaddr_in open_port, no_port, silent_port;

static struct sockaddr_in address(const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static int made(int flags) { return socket(AF_INET, SOCK_STREAM | flags, 0); }

static int reach(int s, struct sockaddr_in *to) { return connect(s, (struct sockaddr *)to, sizeof *to); }

/* Without waiting: begun or done. */
static int begun(int s, struct sockaddr_in *to) { return reach(s, to) == 0 || errno == EINPROGRESS; }

static int error_of(int s) {
    int error = -1;
    socklen_t length = sizeof error;
    getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

static int ready(int s, short events) {
    struct pollfd one = {s, events, 0};
    return poll(&one, 1, SECONDS) == 1 && one.revents & events;
}

static int hello(int s) {
    char text[6] = "";
    return ready(s, POLLIN) && recv(s, text, 5, MSG_WAITALL) == 5 && !strcmp(text, "hello");
}

static int add(int epoll, int s, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u64 = DATA};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, s, &event) == 0;
}

static uint32_t happened(int epoll, int milliseconds) {
    struct epoll_event event = {0};
    return epoll_wait(epoll, &event, 1, milliseconds) == 1 && event.data.u64 == DATA ? event.events : 0;
}

static int level(void) {
    int s = made(SOCK_NONBLOCK), epoll = epoll_create1(0);
    return add(epoll, s, EPOLLOUT) && begun(s, &open_port) && happened(epoll, SECONDS) == EPOLLOUT
        && happened(epoll, 0) == EPOLLOUT && hello(s);
}

static int edge(void) {
    int s = made(SOCK_NONBLOCK), epoll = epoll_create1(0);
    if (!add(epoll, s, EPOLLOUT | EPOLLET) || !begun(s, &open_port)) return 0;
    return happened(epoll, SECONDS) & EPOLLOUT && ready(s, POLLRDHUP) && hello(s);
}

static int oneshot(void) {
    int s = made(SOCK_NONBLOCK), epoll = epoll_create1(0);
    if (!add(epoll, s, EPOLLIN | EPOLLONESHOT) || !begun(s, &open_port)) return 0;
    if (!(happened(epoll, SECONDS) & EPOLLIN) || happened(epoll, 0)) return 0;
    struct epoll_event again = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, .data.u64 = DATA};
    return epoll_ctl(epoll, EPOLL_CTL_MOD, s, &again) == 0 && happened(epoll, SECONDS) & EPOLLIN && hello(s);
}

/* A call that waits keeps its registrations too. */
static int level_waiting(void) {
    int s = made(0), epoll = epoll_create1(0);
    return add(epoll, s, EPOLLIN | EPOLLRDHUP) && reach(s, &open_port) == 0 && happened(epoll, SECONDS) & EPOLLIN && hello(s);
}

static int two_instances(void) {
    int s = made(SOCK_NONBLOCK), first = epoll_create1(0), second = epoll_create1(EPOLL_CLOEXEC);
    return add(first, s, EPOLLIN) && add(second, s, EPOLLOUT) && begun(s, &open_port) && happened(first, SECONDS) == EPOLLIN
        && happened(second, SECONDS) == EPOLLOUT && hello(s);
}

static void *waits_for_event(void *epoll) { return (void *)(uintptr_t)happened(*(int *)epoll, SECONDS); }

/* Another thread waits already. */
static int watched(void) {
    int s = made(SOCK_NONBLOCK), epoll = epoll_create1(0);
    pthread_t other;
    void *found = NULL;
    pthread_create(&other, NULL, waits_for_event, &epoll);
    /* Alone, an unconnected socket is hung up. */
    int is_begun = add(epoll, s, EPOLLET) && begun(s, &open_port);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = DATA};
    epoll_ctl(epoll, EPOLL_CTL_MOD, s, &event);
    pthread_join(other, &found);
    return is_begun && (uintptr_t)found && hello(s);
}

static int options(void) {
    static const int wanted[][3] = {
        {IPPROTO_IP, IP_TOS, 8}, {SOL_SOCKET, SO_KEEPALIVE, 1}, {SOL_SOCKET, SO_OOBINLINE, 1},
        {SOL_SOCKET, SO_PRIORITY, 5}, {SOL_SOCKET, SO_RCVLOWAT, 2}, {SOL_SOCKET, SO_ZEROCOPY, 1}, {IPPROTO_IP, IP_TTL, 33},
        {IPPROTO_IP, IP_RECVERR, 1}, {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT}, {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 77}, {IPPROTO_TCP, TCP_KEEPINTVL, 78}, {IPPROTO_TCP, TCP_KEEPCNT, 9},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 7000}, {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384}, {IPPROTO_TCP, TCP_LINGER2, 7},
        {IPPROTO_TCP, TCP_SYNCNT, 3},
    };
    int s = made(0);
    struct timeval time = {7, 500000}, found;
    socklen_t length = sizeof found;
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) setsockopt(s, wanted[i][0], wanted[i][1], &wanted[i][2], sizeof(int));
    if (reach(s, &open_port)) return 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        int value = -1;
        length = sizeof value;
        if (getsockopt(s, wanted[i][0], wanted[i][1], &value, &length) || value != wanted[i][2]) {
            fprintf(stderr, "option %d of %d is %d\n", wanted[i][1], wanted[i][0], value);
            return 0;
        }
    }
    length = sizeof found;
    getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &found, &length);
    int is_kept = !memcmp(&time, &found, sizeof time);
    getsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &found, &length);
    return is_kept && !memcmp(&time, &found, sizeof time) && hello(s);
}

static int flags(void) {
    for (int i = 0; i < 4; i++) {
        int s = made((i & 1 ? SOCK_NONBLOCK : 0) | (i & 2 ? SOCK_CLOEXEC : 0));
        int status = fcntl(s, F_GETFL), own = fcntl(s, F_GETFD);
        if (!begun(s, &open_port) || fcntl(s, F_GETFL) != status || fcntl(s, F_GETFD) != own || !hello(s)) return 0;
        close(s);
    }
    return 1;
}

static int names(void) {
    struct sockaddr_in peer, own;
    socklen_t length = sizeof peer;
    int s = made(0);
    if (getpeername(s, (struct sockaddr *)&peer, &length) != -1 || errno != ENOTCONN || reach(s, &open_port)) return 0;
    length = sizeof peer;
    int is_known = getpeername(s, (struct sockaddr *)&peer, &length) == 0 && !memcmp(&peer, &open_port, 8);
    length = sizeof own;
    return is_known && getsockname(s, (struct sockaddr *)&own, &length) == 0 && own.sin_family == AF_INET && own.sin_port && hello(s);
}

static int progress(void) {
    int s = made(SOCK_NONBLOCK);
    return begun(s, &open_port) && ready(s, POLLOUT) && error_of(s) == 0 && hello(s);
}

static int selected(void) {
    int s = made(SOCK_NONBLOCK);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(s, &set);
    struct timeval time = {20, 0};
    return begun(s, &open_port) && select(s + 1, NULL, &set, NULL, &time) == 1 && error_of(s) == 0 && hello(s);
}

static int copied(void) {
    int s = made(0), copy = dup(s);
    return reach(s, &open_port) == 0 && hello(copy);
}

static int copy_connects(void) {
    int s = made(SOCK_NONBLOCK), copy = fcntl(s, F_DUPFD_CLOEXEC, 100);
    return begun(copy, &open_port) && ready(s, POLLOUT) && !(fcntl(s, F_GETFD) & FD_CLOEXEC) && hello(s);
}

static int forked(void) {
    int s = made(0), status = 1;
    pid_t child = fork();
    if (child == 0) _exit(reach(s, &open_port) || !hello(s));
    waitpid(child, &status, 0);
    return status == 0;
}

/* As programs with keys in their memory do. */
static int closed_to_others(void) {
    int s = made(0), status = 1;
    pid_t child = fork();
    if (child == 0) _exit(prctl(PR_SET_DUMPABLE, 0) || reach(s, &open_port) || !hello(s));
    waitpid(child, &status, 0);
    return status == 0;
}

/* The child has the connection of its parent. */
static int forked_after(void) {
    int s = made(0), status = 1;
    if (reach(s, &open_port)) return 0;
    pid_t child = fork();
    if (child == 0) _exit(!hello(s));
    waitpid(child, &status, 0);
    return status == 0;
}

static void *connects(void *count) {
    uintptr_t right = (uintptr_t)count;
    for (int i = 0; i < 25; i++) {
        int s = made(0);
        right += reach(s, &open_port) == 0 && hello(s);
        close(s);
    }
    return (void *)right;
}

static int threads(void) {
    pthread_t all[12];
    uintptr_t right = 0;
    for (int i = 0; i < 12; i++) pthread_create(&all[i], NULL, connects, NULL);
    for (int i = 0; i < 12; i++) {
        void *count = NULL;
        pthread_join(all[i], &count);
        right += (uintptr_t)count;
    }
    return right == 12 * 25;
}

static volatile sig_atomic_t signals;

static void counts(int number) { signals += number == SIGALRM; }

static int interrupted(int how) {
    struct sigaction action = {.sa_handler = counts, .sa_flags = how};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    int right = 1;
    signals = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; (i < 50 || !signals) && right; i++) {
        int s = made(0);
        right = reach(s, &open_port) == 0 || (errno == EINTR && !how);
        close(s);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    return right;
}

static int with_handler(void) { return interrupted(0); }

static int with_restart(void) { return interrupted(SA_RESTART); }

static int twice(void) {
    int s = made(0);
    return reach(s, &open_port) == 0 && reach(s, &open_port) == -1 && errno == EISCONN && hello(s);
}

static int twice_in_progress(void) {
    int s = made(SOCK_NONBLOCK);
    return reach(s, &silent_port) == -1 && errno == EINPROGRESS && reach(s, &silent_port) == -1 && errno == EALREADY;
}

static int refused(void) {
    int s = made(0);
    return reach(s, &no_port) == -1 && errno == ECONNREFUSED && reach(s, &open_port) == 0 && hello(s);
}

static int refused_later(void) {
    int s = made(SOCK_NONBLOCK);
    if (reach(s, &no_port) == -1 && errno == ECONNREFUSED) return begun(s, &open_port) && hello(s);
    /* Linux may say once more that the first one has failed. */
    return errno == EINPROGRESS && ready(s, POLLERR) && error_of(s) == ECONNREFUSED && error_of(s) == 0
        && (begun(s, &open_port) || begun(s, &open_port)) && hello(s);
}

static int late(int s) {
    struct timeval time = {0, 200000};
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    return reach(s, &silent_port) == -1 && errno == EINPROGRESS;
}

static int limited(void) { return late(made(0)); }

static void *calls(void *s) { return (void *)(uintptr_t)late(*(int *)s); }

/* Whether a thread of this process waits in `connect`. */
static int is_connecting(void) {
    char path[64], text[64] = "";
    for (int id = getpid() + 1; id < getpid() + 500; id++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", id);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        int is_read = fgets(text, sizeof text, file) != NULL;
        fclose(file);
        if (is_read && atoi(text) == SYS_connect) return 1;
    }
    return 0;
}

/* Another thread closes the socket meanwhile, and opens a file, which gets its number. */
static int closed_meanwhile(void) {
    int s = made(0), place = s;
    struct stat found;
    pthread_t other;
    pthread_create(&other, NULL, calls, &place);
    for (int i = 0; i < 2000000 && !is_connecting(); i++) sched_yield();
    close(s);
    int file = open("/dev/null", O_RDWR);
    pthread_join(other, NULL);
    return file == s && fstat(file, &found) == 0 && S_ISCHR(found.st_mode);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        int (*holds)(void);
    } all[] = {
        {"level", level}, {"edge", edge}, {"oneshot", oneshot}, {"level, waiting", level_waiting}, {"two instances", two_instances},
        {"watched", watched}, {"options", options}, {"flags", flags}, {"names", names}, {"progress", progress}, {"selected", selected},
        {"copied", copied}, {"a copy connects", copy_connects}, {"forked", forked}, {"forked after", forked_after}, {"threads", threads},
        {"with a handler", with_handler}, {"with restart", with_restart}, {"twice", twice}, {"twice in progress", twice_in_progress},
        {"refused", refused}, {"refused later", refused_later}, {"limited", limited}, {"closed meanwhile", closed_meanwhile},
        {"closed to others", closed_to_others},
    };
    if (count < 4) return 2;
    open_port = address(words[1]), no_port = address(words[2]), silent_port = address(words[3]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        errno = 0;
        int holds = all[i].holds();
        printf("%s %s (%s)\n", holds ? "ok" : "WRONG", all[i].name, strerror(errno));
        fflush(stdout);
    }
}
