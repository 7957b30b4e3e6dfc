/* Uses every kind of lock in ways that the test counts; with an argument, `child` forks and `killed` is killed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static int turn, waits;

/* Before the constructors of the program, and of libraries that come after the preloaded one. */
static void lock_early(void) {
    pthread_mutex_lock(&outer);
    pthread_mutex_unlock(&outer);
}
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = lock_early;

static void *wait_for_turn(void *unused) {
    pthread_mutex_lock(&outer);
    while (!turn) {
        waits++;
        pthread_cond_wait(&condition, &outer);
    }
    pthread_mutex_unlock(&outer);
    return unused;
}

static void use_all(void) {
    struct timespec end;
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&outer);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    clock_gettime(CLOCK_REALTIME, &end);
    if (pthread_mutex_trylock(&outer) != 0 || pthread_mutex_timedlock(&inner, &end) != 0) {
        abort();
    }
    pthread_mutex_unlock(&outer);
    pthread_mutex_unlock(&inner);
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    pthread_rwlock_wrlock(&rwlock);
    if (pthread_rwlock_tryrdlock(&rwlock) == 0) {
        abort();
    }
    pthread_rwlock_unlock(&rwlock);
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
}

/* A section that another thread has to wait for. */
static void *contend(void *unused) {
    pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    return unused;
}

static void run(void *(*act)(void *), pthread_t *thread) {
    if (pthread_create(thread, NULL, act, NULL) != 0) {
        abort();
    }
}

int main(int count, char **words) {
    pthread_t thread;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    use_all();
    run(wait_for_turn, &thread);
    usleep(20000);
    pthread_mutex_lock(&outer);
    turn = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&outer);
    pthread_join(thread, NULL);
    pthread_rwlock_rdlock(&rwlock);
    run(contend, &thread);
    usleep(20000);
    pthread_rwlock_unlock(&rwlock);
    pthread_join(thread, NULL);
    printf("%d\n", waits);
    fflush(stdout);
    if (count > 1 && strcmp(words[1], "child") == 0) {
        pid_t child = fork();
        if (child == 0) {
            use_all();
            exit(0);
        }
        waitpid(child, NULL, 0);
    } else if (count > 1) {
        pthread_mutex_lock(&outer);
        raise(SIGKILL);
    }
    return 0;
}
