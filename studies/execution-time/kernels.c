/* Small programs of known character, one a name: ./kernels NAME.
 * Each does the same work in every run. They cover what whole programs leave out: arithmetic without
 * memory, streams, dependent loads over much memory, tables, and unpredictable branches. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void *room(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory) {
        perror("malloc");
        exit(1);
    }
    return memory;
}

static uint64_t cpubound(void)
{
    uint64_t sum = 1;
    for (int i = 0; i < 12000000; i++)
        sum = sum * 2862933555777941757ull + (sum >> 29);
    return sum;
}

static uint64_t chase(void)
{
    enum { CELLS = 1 << 18 };
    uint32_t *next = room(CELLS * sizeof *next);
    for (uint32_t i = 0; i < CELLS; i++)
        next[i] = i;
    for (uint32_t i = CELLS - 1; i > 0; i--) { /* Sattolo: one cycle through all cells */
        uint32_t j = draw() % i, kept = next[i];
        next[i] = next[j];
        next[j] = kept;
    }
    uint32_t at = 0;
    for (int i = 0; i < 6000000; i++)
        at = next[at];
    return at;
}

static uint64_t readbound(void)
{
    size_t words = 1 << 19;
    uint64_t *cells = room(words * sizeof *cells), sum = 0;
    memset(cells, 1, words * sizeof *cells);
    for (int pass = 0; pass < 24; pass++)
        for (size_t i = 0; i < words; i += 4)
            sum += cells[i];
    return sum;
}

static uint64_t writebound(void)
{
    size_t words = 1 << 19;
    uint64_t *cells = room(words * sizeof *cells);
    for (int pass = 0; pass < 24; pass++)
        for (size_t i = 0; i < words; i += 4)
            cells[i] = i + pass;
    return cells[words / 2];
}

static uint64_t triad(void)
{
    size_t words = 1 << 18;
    double *a = room(words * sizeof *a), *b = room(words * sizeof *b), *c = room(words * sizeof *c);
    for (size_t i = 0; i < words; i++)
        a[i] = b[i] = c[i] = (double)i;
    for (int pass = 0; pass < 12; pass++)
        for (size_t i = 0; i < words; i++)
            a[i] = b[i] + 0.5 * c[i];
    return (uint64_t)a[words - 1];
}

static uint64_t matrix(size_t block)
{
    enum { N = 224 };
    float *a = room(N * N * sizeof *a), *b = room(N * N * sizeof *b), *c = room(N * N * sizeof *c);
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5);
        c[i] = 0;
    }
    for (size_t jj = 0; jj < N; jj += block)
        for (size_t kk = 0; kk < N; kk += block)
            for (size_t i = 0; i < N; i++)
                for (size_t j = jj; j < jj + block; j++) {
                    float sum = c[i * N + j];
                    for (size_t k = kk; k < kk + block; k++)
                        sum += a[i * N + k] * b[k * N + j];
                    c[i * N + j] = sum;
                }
    return (uint64_t)c[N * N / 2];
}

static int compare(const void *left, const void *right)
{
    uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
    return (l > r) - (l < r);
}

static uint64_t quicksort(void)
{
    size_t count = 400000;
    uint32_t *values = room(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (uint32_t)draw();
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static uint64_t hash_table(void)
{
    size_t cells = 1 << 19;
    uint64_t *keys = room(cells * sizeof *keys), found = 0;
    memset(keys, 0, cells * sizeof *keys);
    for (int i = 0; i < 250000; i++) {
        uint64_t key = draw() | 1;
        size_t at = (key * 11400714819323198485ull) >> 45;
        while (keys[at])
            at = (at + 1) & (cells - 1);
        keys[at] = key;
    }
    for (int i = 0; i < 1000000; i++)
        found += keys[draw() & (cells - 1)] != 0;
    return found;
}

static uint64_t sieve(void)
{
    size_t limit = 3000000;
    unsigned char *composite = room(limit);
    uint64_t primes = 0;
    memset(composite, 0, limit);
    for (size_t i = 2; i < limit; i++) {
        if (composite[i])
            continue;
        primes++;
        for (size_t j = i * i; j < limit; j += i)
            composite[j] = 1;
    }
    return primes;
}

static uint64_t bodies(void)
{
    enum { BODIES = 64 };
    double x[BODIES], v[BODIES];
    for (int i = 0; i < BODIES; i++) {
        x[i] = (double)(draw() % 1000);
        v[i] = 0;
    }
    for (int step = 0; step < 600; step++) {
        for (int i = 0; i < BODIES; i++)
            for (int j = 0; j < BODIES; j++) {
                double apart = x[j] - x[i];
                v[i] += 1e-3 * apart / (1 + apart * apart);
            }
        for (int i = 0; i < BODIES; i++)
            x[i] += v[i];
    }
    return (uint64_t)x[0];
}

static uint64_t branches(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 4000000; i++) {
        uint64_t bits = draw();
        if (bits & 1)
            sum += bits;
        else if (bits & 2)
            sum ^= bits;
        if ((bits >> 8) % 3 == 0)
            sum = sum * 3 + 1;
    }
    return sum;
}

static uint64_t transpose(void)
{
    enum { N = 640 };
    uint32_t *from = room(N * N * sizeof *from), *to = room(N * N * sizeof *to);
    memset(from, 3, N * N * sizeof *from);
    for (int pass = 0; pass < 8; pass++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                to[j * N + i] = from[i * N + j] + pass;
    return to[N];
}

int main(int argc, char **argv)
{
    static const struct { const char *name; uint64_t (*work)(void); } kernels[] = {
        {"cpubound", cpubound}, {"chase", chase}, {"readbound", readbound},
        {"writebound", writebound}, {"triad", triad}, {"quicksort", quicksort},
        {"hash-table", hash_table}, {"sieve", sieve}, {"bodies", bodies},
        {"branches", branches}, {"transpose", transpose},
    };
    if (argc == 2) {
        if (strcmp(argv[1], "matrix") == 0)
            return printf("%llu\n", (unsigned long long)matrix(224)) < 0;
        if (strcmp(argv[1], "matrix-blocked") == 0)
            return printf("%llu\n", (unsigned long long)matrix(32)) < 0;
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            if (strcmp(argv[1], kernels[i].name) == 0)
                return printf("%llu\n", (unsigned long long)kernels[i].work()) < 0;
    }
    fprintf(stderr, "usage: kernels NAME\n");
    return 1;
}
